// The bodies of nn/op.hpp, nn/elementwise.hpp and nn/linear_ops.hpp.
#include "yotta/nn/experts.hpp"
#include "yotta/nn/linear_ops.hpp"
