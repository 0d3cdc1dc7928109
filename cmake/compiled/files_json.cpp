// The bodies of core/ that read JSON.
#include "yotta/core/files/impl/json.ipp"
