// The bodies of machine/ that read JSON.
#undef YOTTA_COMPILING  // what is included here is as its users see it: its bodies are compiled elsewhere
#include "yotta/core/context.hpp"
#include "yotta/machine/cluster.hpp"

#undef YOTTA_BODIES
#define YOTTA_BODIES 1
#include "yotta/machine/files/cluster_file.hpp"
