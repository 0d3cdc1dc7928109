// The bodies of comm/ that lay out ranks and time them.
#undef YOTTA_COMPILING  // what is included here is as its users see it: its bodies are compiled elsewhere
#include "yotta/comm/axis.hpp"
#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/machine/clock.hpp"
#include "yotta/machine/pictures/timeline.hpp"

#undef YOTTA_BODIES
#define YOTTA_BODIES 1
#include "yotta/comm/chooser.hpp"
#include "yotta/comm/layouts/mesh_text.hpp"
#include "yotta/comm/layouts/torus_shape.hpp"
#include "yotta/comm/mesh.hpp"
#include "yotta/comm/recording/recorder.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/comm/torus_rings.hpp"
