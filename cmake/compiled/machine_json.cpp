// The bodies of machine/ that read JSON.
#include "yotta/machine/files/cluster_file.hpp"
