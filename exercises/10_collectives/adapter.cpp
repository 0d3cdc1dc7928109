// One solution of exercise 10 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

const exercise::Solution exercise::solution = {
    yotta::student::reduce_scatter_ring, yotta::student::all_gather_ring,
    yotta::student::all_reduce_ring, yotta::student::ring_bytes_sent};
