// The bodies of machine/.
#undef YOTTA_COMPILING  // what is included here is as its users see it: its bodies are compiled elsewhere
#include "yotta/core/context.hpp"
#include "yotta/core/matmul_ladder.hpp"
#include "yotta/core/random.hpp"
#include "yotta/core/system/files.hpp"

#undef YOTTA_BODIES
#define YOTTA_BODIES 1
#include "yotta/machine/chip.hpp"
#include "yotta/machine/clock.hpp"
#include "yotta/machine/cluster.hpp"
#include "yotta/machine/contention.hpp"
#include "yotta/machine/critical_path.hpp"
#include "yotta/machine/pictures/roofline_picture.hpp"
#include "yotta/machine/pictures/timeline.hpp"
#include "yotta/machine/pictures/timeline_file.hpp"
#include "yotta/machine/roofline.hpp"
#include "yotta/machine/stragglers.hpp"
#include "yotta/machine/systolic.hpp"
#include "yotta/machine/trace.hpp"
