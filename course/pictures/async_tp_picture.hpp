// The pictures of lesson 22. One: which rank multiplies which piece in which step, recorded from a
// run of the two functions of parallel/async_tp.hpp. Two: what rank 0 of four computes and what
// travels to it, from the timelines of an all_gather with its matmul, whole and in pieces.
//
// The files in course/pictures/ are what `./yotta lesson 22 -- --draw 1` writes.
#pragma once

#include <string>
#include <vector>

#include "yotta/machine/trace.hpp"
#include "yotta/parallel/async_tp.hpp"

namespace yotta {

constexpr int async_tp_picture_ranks = 4;

// By rank: whose pieces it multiplies, one after the other. A run on threads.
std::vector<std::vector<int>> pieces_multiplied(int p, Pieces pieces, bool sums);

// An all_gather and its matmul on four ranks. A piece's matmul takes 1 s, its hop `hop` s.
Trace async_tp_trace(Pieces pieces, double hop);

std::string async_tp_ring_svg();
std::string async_tp_svg();

}  // namespace yotta
