// The bodies of comm/ that lay out ranks and time them.
#include "yotta/comm/chooser.hpp"
#include "yotta/comm/layouts/mesh_text.hpp"
#include "yotta/comm/layouts/torus_shape.hpp"
#include "yotta/comm/mesh.hpp"
#include "yotta/comm/recording/recorder.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/comm/torus_rings.hpp"
