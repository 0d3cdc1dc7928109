// The bodies of nn/attention.hpp, nn/flash_attention.hpp and nn/flash_decoding.hpp, and their
// products of tiles.
#include "yotta/nn/cpu/impl/tile_matmul.ipp"
#include "yotta/nn/impl/attention.ipp"
#include "yotta/nn/impl/flash_attention.ipp"
#include "yotta/nn/impl/flash_decoding.ipp"
