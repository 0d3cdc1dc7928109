// The bodies of device/compile/: operations of graphs, and how their fused kernels are compiled and
// run; and their picture.
#include "yotta/device/compile/impl/gpu_program.ipp"
#include "yotta/device/compile/impl/interpreter.ipp"
#include "yotta/device/compile/impl/kernel_code.ipp"
#include "yotta/device/compile/impl/nvrtc.ipp"
#include "yotta/device/compile/impl/shared_object.ipp"
#include "yotta/device/compile/impl/tiles.ipp"
#include "yotta/device/pictures/impl/graph_picture.ipp"
