// CUDA's atomic operations on the CPU: each reads a value, changes it and returns the old one, in
// one step that no other thread can interrupt.
//
//     const int mine = atomicAdd(&next, 1);      every thread gets a number of its own
//
// Blocks may run on several OS threads, so these are real atomic operations. Floats are added by
// compare-and-swap, in the order in which threads arrive: sums of floats differ in their last bits
// from run to run, as on a GPU. An exchange, a compare-and-swap or an addition of 0 lets the other
// threads go first, so that a thread that waits for another's flag does not wait forever.
// nvcc has its own, so there this file is empty. Reference: CUDA C++ Programming Guide, "Atomic
// Functions".
#pragma once

#if !defined(__CUDACC__)

#include <cstdint>
#include <type_traits>

#include "yotta/device/emulator/cuda_builtins.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// Replaces *at by change(*at); returns what was there.
template <class T, class Change>
YOTTA_UNSEEN T atomically(T* at, Change change) {
  T before, after;
  __atomic_load(at, &before, __ATOMIC_SEQ_CST);
  do {
    after = change(before);
  } while (
      !__atomic_compare_exchange(at, &before, &after, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return before;
}
// The same, noted. The place is that of the kernel's line: a Where, or an address to which a
// function returns.
template <class T, class Change, class Place>
YOTTA_UNSEEN T atomically(T* at, Change change, Place where) {
  note_atomic(at, sizeof(T), where);
  return atomically(at, change);
}

template <class T, class Place>
YOTTA_UNSEEN T atomically_read(T* at, Place where) {
  note_atomic(at, sizeof(T), where, AtomicKind::reads);
  T value;
  __atomic_load(at, &value, __ATOMIC_SEQ_CST);
  return value;
}
template <class T, class Place>
YOTTA_UNSEEN void atomically_write(T* at, T value, Place where) {
  note_atomic(at, sizeof(T), where, AtomicKind::writes);
  __atomic_store(at, &value, __ATOMIC_SEQ_CST);
}

// Lets the other lanes go first. A Where without a line: unknown.
void give_way(Where where);

template <class T>
concept AtomicNumber = std::is_same_v<T, int> || std::is_same_v<T, unsigned> ||
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, unsigned long long>;
template <class T>
concept AtomicInteger = AtomicNumber<T> && std::is_integral_v<T>;

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

inline namespace YOTTA_DEVICE_BUILD {

template <yotta::emulator::AtomicNumber T>
T atomicAdd(T* at, std::type_identity_t<T> value, yotta::Where where = yotta::Where::current()) {
  if constexpr (std::is_integral_v<T>)
    if (value == 0) yotta::emulator::give_way(where);  // who reads so waits for a change
  return yotta::emulator::atomically(
      at, [value](T x) { return static_cast<T>(x + value); }, where);
}
template <yotta::emulator::AtomicInteger T>
T atomicSub(T* at, std::type_identity_t<T> value, yotta::Where where = yotta::Where::current()) {
  return yotta::emulator::atomically(
      at, [value](T x) { return static_cast<T>(x - value); }, where);
}
template <yotta::emulator::AtomicInteger T>
T atomicMin(T* at, std::type_identity_t<T> value, yotta::Where where = yotta::Where::current()) {
  return yotta::emulator::atomically(
      at, [value](T x) { return value < x ? value : x; }, where);
}
template <yotta::emulator::AtomicInteger T>
T atomicMax(T* at, std::type_identity_t<T> value, yotta::Where where = yotta::Where::current()) {
  return yotta::emulator::atomically(
      at, [value](T x) { return x < value ? value : x; }, where);
}
template <yotta::emulator::AtomicInteger T>
T atomicAnd(T* at, std::type_identity_t<T> value, yotta::Where where = yotta::Where::current()) {
  return yotta::emulator::atomically(
      at, [value](T x) { return x & value; }, where);
}
template <yotta::emulator::AtomicInteger T>
T atomicOr(T* at, std::type_identity_t<T> value, yotta::Where where = yotta::Where::current()) {
  return yotta::emulator::atomically(
      at, [value](T x) { return x | value; }, where);
}
template <yotta::emulator::AtomicInteger T>
T atomicXor(T* at, std::type_identity_t<T> value, yotta::Where where = yotta::Where::current()) {
  return yotta::emulator::atomically(
      at, [value](T x) { return x ^ value; }, where);
}
// Counts 0, 1, ..., limit, 0, ...
inline unsigned atomicInc(unsigned* at, unsigned limit,
                          yotta::Where where = yotta::Where::current()) {
  return yotta::emulator::atomically(
      at, [limit](unsigned x) { return x >= limit ? 0u : x + 1; }, where);
}
template <yotta::emulator::AtomicNumber T>
T atomicExch(T* at, std::type_identity_t<T> value, yotta::Where where = yotta::Where::current()) {
  yotta::emulator::give_way(where);
  return yotta::emulator::atomically(
      at, [value](T) { return value; }, where);
}
// Waits for some time: here, until the other threads of the block have gone on.
inline void __nanosleep(unsigned, yotta::Where where = yotta::Where::current()) {
  yotta::emulator::give_way(where);
}
// Writes `value` if *at holds `expected`.
template <yotta::emulator::AtomicInteger T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value,
            yotta::Where where = yotta::Where::current()) {
  yotta::emulator::give_way(where);
  return yotta::emulator::atomically(
      at, [=](T x) { return x == expected ? value : x; }, where);
}

}  // namespace YOTTA_DEVICE_BUILD

#ifndef YOTTA_COMPILED
#include "yotta/device/impl/atomics.ipp"
#endif
#endif
