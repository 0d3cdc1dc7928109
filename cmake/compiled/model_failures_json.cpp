// The bodies of what failures cost and how they are found. Checksums of snapshots are compiled only
// with JSON, so these are, too.
#include "yotta/model/failure_arithmetic.hpp"
#include "yotta/model/failure_detection.hpp"
#include "yotta/model/watched_run.hpp"
