// One solution of exercise 41 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

const exercise::Solution exercise::solution = {yotta::student::dot_by_halves<64>,
                                               yotta::student::dot_by_pieces<64>,
                                               yotta::student::transpose_by_tiles<32>};
