// Cooperative groups smaller than a grid, on the CPU: a block, tiles of a warp, the lanes that
// happen to be together. NVIDIA's names; this_grid() is in cooperative_groups.hpp.
//
//     thread_block             this_thread_block()              the threads of a block
//     thread_block_tile<N>     tiled_partition<N>(block)        N lanes in a row, N <= 32
//     coalesced_group          coalesced_threads()              lanes that are here together
//     thread_group             any of these, without its type
//
//     rank in a tile of 8:     lane  8  9 10 ... 15 | 16 17 ...
//                              rank  0  1  2 ...  7 |  0  1 ...
//
// Each operation of a tile or coalesced group is one of the warp's, with the group's mask, so the
// same mistakes are found. A group of a whole block meets in __syncthreads().
// Reference: CUDA C++ Programming Guide, "Cooperative Groups".
#pragma once

#if !defined(__CUDACC__)

#include <bit>
#include <cstddef>
#include <type_traits>

#include "yotta/device/cooperative_groups.hpp"
#include "yotta/device/unchanged/warp_words.hpp"

namespace cooperative_groups {
inline namespace YOTTA_DEVICE_BUILD {

// A thread's number in its block, and how many there are.
inline unsigned rank_in_block(yotta::Where where) {
  const uint3& at = yotta::emulator::thread_index(where);
  const dim3& block = yotta::emulator::block_size(where);
  return at.x + block.x * (at.y + block.y * at.z);
}
inline unsigned block_threads(yotta::Where where) {
  const dim3& block = yotta::emulator::block_size(where);
  return block.x * block.y * block.z;
}

class thread_block {
 public:
  static void sync(yotta::Where where = yotta::Where::current()) { __syncthreads(where); }
  static unsigned thread_rank(yotta::Where where = yotta::Where::current()) {
    return rank_in_block(where);
  }
  static unsigned num_threads(yotta::Where where = yotta::Where::current()) {
    return block_threads(where);
  }
  static unsigned size(yotta::Where where = yotta::Where::current()) {
    return block_threads(where);
  }
  static dim3 group_index(yotta::Where where = yotta::Where::current()) {
    const uint3& at = yotta::emulator::block_index(where);
    return {at.x, at.y, at.z};
  }
  static dim3 thread_index(yotta::Where where = yotta::Where::current()) {
    const uint3& at = yotta::emulator::thread_index(where);
    return {at.x, at.y, at.z};
  }
  static dim3 group_dim(yotta::Where where = yotta::Where::current()) {
    return yotta::emulator::block_size(where);
  }
  static dim3 dim_threads(yotta::Where where = yotta::Where::current()) {
    return yotta::emulator::block_size(where);
  }
};
inline thread_block this_thread_block() { return {}; }

// Some lanes of a warp.
class LaneGroup {
 public:
  explicit LaneGroup(unsigned mask) : mask_(mask) {}

  void sync(yotta::Where where = yotta::Where::current()) const { __syncwarp(mask_, where); }
  unsigned size() const { return static_cast<unsigned>(std::popcount(mask_)); }
  unsigned num_threads() const { return size(); }
  unsigned thread_rank(yotta::Where where = yotta::Where::current()) const {
    return static_cast<unsigned>(
        std::popcount(mask_ & ((1u << yotta::emulator::lane_index(where)) - 1)));
  }

  template <class T>
  T shfl(T value, int rank, yotta::Where where = yotta::Where::current()) const {
    return move(value, rank, where);
  }
  // Beyond the ends a lane keeps its own.
  template <class T>
  T shfl_up(T value, unsigned delta, yotta::Where where = yotta::Where::current()) const {
    const unsigned mine = thread_rank();
    return move(value, static_cast<int>(mine < delta ? mine : mine - delta), where);
  }
  template <class T>
  T shfl_down(T value, unsigned delta, yotta::Where where = yotta::Where::current()) const {
    const unsigned mine = thread_rank();
    return move(value, static_cast<int>(mine + delta >= size() ? mine : mine + delta), where);
  }
  template <class T>
  T shfl_xor(T value, unsigned bits, yotta::Where where = yotta::Where::current()) const {
    const unsigned mine = thread_rank();
    return move(value, static_cast<int>((mine ^ bits) < size() ? mine ^ bits : mine), where);
  }
  int any(int predicate, yotta::Where where = yotta::Where::current()) const {
    return __any_sync(mask_, predicate, where);
  }
  int all(int predicate, yotta::Where where = yotta::Where::current()) const {
    return __all_sync(mask_, predicate, where);
  }
  // Masks by rank.
  unsigned ballot(int predicate, yotta::Where where = yotta::Where::current()) const {
    return by_rank(__ballot_sync(mask_, predicate, where));
  }
  template <class T>
  unsigned match_any(T value, yotta::Where where = yotta::Where::current()) const {
    return by_rank(__match_any_sync(mask_, value, where));
  }
  template <class T>
  unsigned match_all(T value, int& predicate, yotta::Where where = yotta::Where::current()) const {
    return by_rank(__match_all_sync(mask_, value, &predicate, where));
  }
  // The lanes whose rank, divided by the size, is this lane's.
  LaneGroup part(unsigned part_size) const {
    const unsigned mine = thread_rank() / part_size;
    unsigned lanes = 0, rank = 0;
    for (unsigned left = mask_; left != 0; left &= left - 1)
      if (rank++ / part_size == mine) lanes |= left & -left;
    return LaneGroup(lanes);
  }

 protected:
  unsigned mask_;

 private:
  template <class T>
  T move(T value, int rank, yotta::Where where) const {
    return yotta::emulator::shuffle("shfl() of a group", mask_, value, lane_of(rank), where);
  }
  int lane_of(int rank) const {
    unsigned left = mask_;
    for (; rank > 0; --rank) left &= left - 1;
    return left == 0 ? yotta::emulator::lane_index() : std::countr_zero(left);
  }
  unsigned by_rank(unsigned lanes) const {
    unsigned ranks = 0;
    int rank = 0;
    for (unsigned left = mask_; left != 0; left &= left - 1, ++rank)
      ranks |= (lanes >> std::countr_zero(left) & 1) << rank;
    return ranks;
  }
};

// The mask of `size` lanes in a row that this lane belongs to.
inline unsigned tile_mask(unsigned size) {
  const unsigned first = static_cast<unsigned>(yotta::emulator::lane_index()) / size * size;
  return (size == 32 ? 0xffffffffu : (1u << size) - 1) << first;
}

template <unsigned Size, class Parent = void>
class thread_block_tile : public LaneGroup {
 public:
  static_assert(Size <= 32 && std::has_single_bit(Size),
                "a tile has 1, 2, 4, 8, 16 or 32 threads; larger ones are not in the emulator");
  // One of those that a group of so many threads is cut into.
  thread_block_tile(unsigned rank_in_parent, unsigned parent_size)
      : LaneGroup(tile_mask(Size)),
        meta_group_rank_(rank_in_parent / Size),
        meta_group_size_((parent_size + Size - 1) / Size) {}
  template <class Other>
  thread_block_tile(const thread_block_tile<Size, Other>& other)
      : LaneGroup(other),
        meta_group_rank_(other.meta_group_rank()),
        meta_group_size_(other.meta_group_size()) {}
  static constexpr unsigned size() { return Size; }
  static constexpr unsigned num_threads() { return Size; }
  static unsigned thread_rank(yotta::Where where = yotta::Where::current()) {
    return rank_in_block(where) % Size;
  }
  unsigned meta_group_rank() const { return meta_group_rank_; }
  unsigned meta_group_size() const { return meta_group_size_; }
  // Beyond the tile, ranks begin anew.
  template <class T>
  T shfl(T value, int rank, yotta::Where where = yotta::Where::current()) const {
    return LaneGroup::shfl(value, static_cast<int>(static_cast<unsigned>(rank) % Size), where);
  }

 private:
  unsigned meta_group_rank_, meta_group_size_;
};

class coalesced_group : public LaneGroup {
 public:
  explicit coalesced_group(unsigned mask) : LaneGroup(mask) {}
  coalesced_group(const LaneGroup& lanes, unsigned meta_group_rank, unsigned meta_group_size)
      : LaneGroup(lanes), meta_group_rank_(meta_group_rank), meta_group_size_(meta_group_size) {}
  unsigned meta_group_rank() const { return meta_group_rank_; }
  unsigned meta_group_size() const { return meta_group_size_; }

 private:
  unsigned meta_group_rank_ = 0, meta_group_size_ = 1;
};
inline coalesced_group coalesced_threads(yotta::Where where = yotta::Where::current()) {
  return coalesced_group(__activemask(where));
}

// Any of them; a mask of 0 stands for the block.
class thread_group {
 public:
  thread_group(const thread_block&) {}
  thread_group(const LaneGroup& lanes) : lanes_(lanes), is_block_(false) {}
  void sync(yotta::Where where = yotta::Where::current()) const {
    is_block_ ? __syncthreads(where) : lanes_.sync(where);
  }
  unsigned size(yotta::Where where = yotta::Where::current()) const {
    return is_block_ ? block_threads(where) : lanes_.size();
  }
  unsigned num_threads(yotta::Where where = yotta::Where::current()) const { return size(where); }
  unsigned thread_rank(yotta::Where where = yotta::Where::current()) const {
    return is_block_ ? rank_in_block(where) : lanes_.thread_rank(where);
  }
  thread_group part(unsigned part_size) const {
    return is_block_ ? LaneGroup(tile_mask(part_size)) : lanes_.part(part_size);
  }

 private:
  LaneGroup lanes_{0};
  bool is_block_ = true;
};

template <unsigned Size, class Parent>
thread_block_tile<Size, Parent> tiled_partition(const Parent& parent) {
  static_assert(!std::is_same_v<Parent, coalesced_group>,
                "lanes that are together are cut by tiled_partition(group, size): as many as come "
                "are no tile of a fixed size");
  return {parent.thread_rank(), parent.num_threads()};
}
inline thread_group tiled_partition(const thread_group& parent, unsigned size) {
  return parent.part(size);
}
inline coalesced_group tiled_partition(const coalesced_group& parent, unsigned size) {
  return {parent.part(size), parent.thread_rank() / size, (parent.size() + size - 1) / size};
}

template <class Group>
void sync(const Group& group, yotta::Where where = yotta::Where::current()) {
  group.sync(where);
}
template <class Group>
unsigned thread_rank(const Group& group) {
  return static_cast<unsigned>(group.thread_rank());
}
template <class Group>
unsigned group_size(const Group& group) {
  return static_cast<unsigned>(group.size());
}

// ---- Reductions and scans over lanes ----
#define YOTTA_GROUP_OPERATION(name, expression)                                   \
  template <class T = void>                                                       \
  struct name {                                                                   \
    constexpr T operator()(T a, T b) const { return static_cast<T>(expression); } \
  };
YOTTA_GROUP_OPERATION(plus, a + b)
YOTTA_GROUP_OPERATION(less, b < a ? b : a)  // NVIDIA's name of the smaller
YOTTA_GROUP_OPERATION(greater, a < b ? b : a)
YOTTA_GROUP_OPERATION(bit_and, a& b)
YOTTA_GROUP_OPERATION(bit_or, a | b)
YOTTA_GROUP_OPERATION(bit_xor, a ^ b)
#undef YOTTA_GROUP_OPERATION

// Every lane gets what all brought, joined.
template <class Group, class T, class Join>
T reduce(const Group& group, T value, Join join, yotta::Where where = yotta::Where::current()) {
  T all = group.shfl(value, 0, where);
  for (unsigned i = 1; i < group.size(); ++i)
    all = join(all, group.shfl(value, static_cast<int>(i), where));
  return all;
}
// What the lanes of lower rank and this one brought; exclusive: without this one, and T{} for the
// first.
template <class Group, class T, class Join = plus<T>>
T inclusive_scan(const Group& group, T value, Join join = {},
                 yotta::Where where = yotta::Where::current()) {
  T sum = value;
  for (unsigned step = 1; step < group.size(); step *= 2) {
    const T other = group.shfl_up(sum, step, where);
    if (group.thread_rank() >= step) sum = join(other, sum);
  }
  return sum;
}
template <class Group, class T, class Join = plus<T>>
T exclusive_scan(const Group& group, T value, Join join = {},
                 yotta::Where where = yotta::Where::current()) {
  const T before = group.shfl_up(inclusive_scan(group, value, join, where), 1, where);
  return group.thread_rank() == 0 ? T{} : before;
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace cooperative_groups

#endif
