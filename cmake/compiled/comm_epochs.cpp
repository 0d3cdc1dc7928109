// The bodies of jobs that go on when ranks die.
#include "yotta/comm/impl/epochs.ipp"
