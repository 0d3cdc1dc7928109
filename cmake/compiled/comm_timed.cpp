// The bodies of comm/ that lay out ranks, choose algorithms and record runs.
#include "yotta/comm/impl/chooser.ipp"
#include "yotta/comm/layouts/impl/mesh_text.ipp"
#include "yotta/comm/layouts/impl/torus_shape.ipp"
#include "yotta/comm/impl/mesh.ipp"
#include "yotta/comm/recording/impl/recorder.ipp"
