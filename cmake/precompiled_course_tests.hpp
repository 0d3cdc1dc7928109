// What the tests of the course include, precompiled: what the runner's files do, and doctest.
#pragma once

#include "precompiled_runner.hpp"
#include "precompiled_tests.hpp"
