// The bodies of nn/attention.hpp and nn/flash_attention.hpp.
#include "yotta/nn/impl/attention.ipp"
#include "yotta/nn/impl/flash_attention.ipp"
