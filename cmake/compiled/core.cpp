// The bodies of core/.
#include "yotta/core/compare.hpp"
#include "yotta/core/cpu/measure.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/core/tensor.hpp"
