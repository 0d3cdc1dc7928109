// The bodies of machine/ that explain and draw what a trace holds.
#include "yotta/machine/impl/critical_path.ipp"
#include "yotta/machine/pictures/impl/op_profile.ipp"
#include "yotta/machine/pictures/impl/roofline_picture.ipp"
#include "yotta/machine/pictures/impl/timeline.ipp"
#include "yotta/machine/pictures/impl/timeline_file.ipp"
