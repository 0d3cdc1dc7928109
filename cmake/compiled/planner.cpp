// The bodies of plan/ that estimate and choose layouts.
#include "yotta/plan/planner.hpp"
#include "yotta/plan/step_estimate.hpp"
