// CUDA's header of this name, for programs that run in the emulator.
#pragma once
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmath>
#include <cstdlib>

#include "yotta/device/unchanged/cuda_words.hpp"
