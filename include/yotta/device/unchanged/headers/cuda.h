// CUDA's header of this name, for programs that run in the emulator.
#pragma once
#include <cuda_runtime.h>

#include "yotta/device/unchanged/driver_words.hpp"
