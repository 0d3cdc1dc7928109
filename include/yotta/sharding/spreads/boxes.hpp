// Boxes of a tensor that ranks hold, and rings that pass pieces of unequal length round.
//
//     whole (4, 6)      . . a a a .       copy_overlap copies what both boxes have: from the tensor
//                       . . # # # b       that holds `a` into the tensor that holds `b`
//                       . . # # # b
//                       . . . b b b
//
// The rings are those of collectives_ring.hpp. There chunk i has chunk_count(n, p, i) numbers; here
// the caller says how many, because a rank may hold one row more than its neighbour.
#pragma once

#include "yotta/comm/communicator.hpp"
#include "yotta/sharding/spread.hpp"

namespace yotta {

Shape shape_of(const Box& box);
// What both have; empty ranges where they do not meet.
Box overlap(const Box& a, const Box& b);
// to = from where the boxes meet; the rest of `to` stays. On meta nothing is copied.
void copy_overlap(const Tensor& from, const Box& at_from, Tensor& to, const Box& at_to);
// A tensor of its own with the numbers of a part of `from`.
Tensor part_of_box(const Tensor& from, const Box& at_from, const Box& part);

// What a box has in common with each of several others; their `numbers` lie one after the other.
struct BoxPieces {
  std::vector<Box> boxes;
  std::vector<int64_t> counts;
  Tensor numbers;
};
BoxPieces pieces_of(const Box& box, const std::vector<Box>& others, DType dtype);
// Calls use(piece, its box) for every piece, as a view of `numbers`.
template <class Use>
void each_piece(const BoxPieces& pieces, Use use) {
  int64_t begin = 0;
  for (size_t i = 0; i < pieces.boxes.size(); begin += pieces.counts[i++]) {
    const Tensor run = pieces.numbers.rows(begin, begin + pieces.counts[i]);
    use(run.reshape(shape_of(pieces.boxes[i])), pieces.boxes[i]);
  }
}

// A B of two ranks' parts, in f64 or f32; on meta only counted.
Tensor local_matmul(const Tensor& a, const Tensor& b, Where where = Where::current());

// counts[i] numbers come from member i; `out` holds all of them in the members' order. Errors, of
// both: `in` and `out` of different types.
void all_gather_uneven(const Communicator& group, ConstData in, Data out, Counts counts,
                       Where where = Where::current());
// Member i ends with the sum of everybody's i-th run of counts[i] numbers.
void reduce_scatter_uneven(const Communicator& group, ConstData in, Data out, Counts counts,
                           Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/sharding/spreads/impl/boxes.ipp"
#endif
