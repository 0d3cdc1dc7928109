// The bodies of plan/ that estimate and choose layouts.
#include "yotta/plan/calibration.hpp"
#include "yotta/plan/launch_options.hpp"
#include "yotta/plan/planner.hpp"
#include "yotta/plan/step_estimate.hpp"
#include "yotta/plan/train_command.hpp"
