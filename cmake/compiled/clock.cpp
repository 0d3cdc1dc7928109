// The bodies of machine/ that say when something happens: chips, the clock, shared ports, traces.
#include "yotta/machine/impl/chip.ipp"
#include "yotta/machine/impl/clock.ipp"
#include "yotta/machine/impl/contention.ipp"
#include "yotta/machine/impl/port_rates.ipp"
#include "yotta/machine/impl/ports.ipp"
#include "yotta/machine/impl/shared_ports.ipp"
#include "yotta/machine/impl/stragglers.ipp"
#include "yotta/machine/impl/trace.ipp"
