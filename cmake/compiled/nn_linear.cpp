// The bodies of nn/op.hpp, nn/elementwise.hpp, nn/linear_ops.hpp and nn/experts.hpp.
#include "yotta/nn/impl/elementwise.ipp"
#include "yotta/nn/impl/experts.ipp"
#include "yotta/nn/impl/linear_ops.ipp"
#include "yotta/nn/impl/op.ipp"
