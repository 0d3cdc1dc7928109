// The same for tests (yotta_quick_tests in programs.cmake).
#pragma once

#include <doctest/doctest.h>

#include "precompiled_programs.hpp"
