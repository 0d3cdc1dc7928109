// The bodies of resilience/ that break something according to a plan, which is JSON.
#include "yotta/resilience/faults/impl/faults.ipp"
#include "yotta/resilience/faults/impl/watched_run.ipp"
#include "yotta/resilience/impl/survivor.ipp"
