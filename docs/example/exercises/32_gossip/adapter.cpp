// One solution of exercise 32 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

const exercise::Solution exercise::solution = {yotta::student::gossip};
