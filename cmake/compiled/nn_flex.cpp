// The bodies of nn/flex_core.hpp.
#include "yotta/nn/impl/flex_core.ipp"
