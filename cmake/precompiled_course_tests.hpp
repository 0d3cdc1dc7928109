// The same for the tests of the course.
#pragma once

#include "precompiled_runner.hpp"
#include "precompiled_tests.hpp"
