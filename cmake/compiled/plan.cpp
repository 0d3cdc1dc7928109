// The bodies of plan/.
#include "yotta/plan/mfu.hpp"
#include "yotta/plan/scaling_laws.hpp"
#include "yotta/plan/scaling_runs.hpp"
#include "yotta/plan/training_budget.hpp"
#include "yotta/plan/waterfall.hpp"
