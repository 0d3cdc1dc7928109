// The bodies of nn/attention.hpp and nn/attention_blockwise.hpp.
#include "yotta/nn/impl/attention.ipp"
#include "yotta/nn/impl/attention_blockwise.ipp"
