// The bodies of resilience/, but for plans of faults, which are JSON (resilience_json.cpp).
#include "yotta/resilience/impl/rerouted_model.ipp"
#include "yotta/resilience/snapshots/impl/epoch_log.ipp"
#include "yotta/resilience/snapshots/impl/snapshot.ipp"
#include "yotta/resilience/snapshots/impl/snapshot_files.ipp"
#include "yotta/resilience/snapshots/impl/snapshot_levels.ipp"
