// The bodies of model/files, which reads and writes JSON.
#include "yotta/model/files/checkpoint.hpp"
#include "yotta/model/files/sharded_checkpoint.hpp"
