// The bodies of machine/ that read JSON.
#include "yotta/machine/files/impl/cluster_file.ipp"
