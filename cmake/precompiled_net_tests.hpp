// The same for tests of those (yotta_quick_net_tests in programs.cmake).
#pragma once

#include <doctest/doctest.h>

#include "precompiled_net.hpp"
