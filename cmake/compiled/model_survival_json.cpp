// The bodies of what keeps a run going when ranks die; a fault plan is JSON.
#include "yotta/model/impl/epoch_log.ipp"
#include "yotta/model/impl/faults.ipp"
#include "yotta/model/files/impl/snapshot_files.ipp"
#include "yotta/model/impl/snapshot.ipp"
#include "yotta/model/impl/snapshot_levels.ipp"
#include "yotta/model/impl/survivor.ipp"
