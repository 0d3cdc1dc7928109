// The bodies of what failures cost and how they are found. Checksums of snapshots are compiled only
// with JSON, so these are, too.
#include "yotta/model/impl/watched_run.ipp"
