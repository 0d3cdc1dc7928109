// The bodies of comm/ that add numbers up: what a message brought, and what thread ranks read from
// each other.
#include "yotta/comm/impl/data.ipp"
#include "yotta/comm/threads/impl/native_collectives.ipp"
