// One solution of exercise 00 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

const exercise::Solution exercise::solution = {
    yotta::student::mean_over_ranks, yotta::student::pass_right, yotta::student::add_to_counter};
