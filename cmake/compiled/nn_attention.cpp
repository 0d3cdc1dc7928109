// The bodies of nn/attention.hpp and nn/attention_blockwise.hpp.
#include "yotta/nn/attention_blockwise.hpp"
