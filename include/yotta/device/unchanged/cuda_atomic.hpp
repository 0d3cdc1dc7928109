// cuda::atomic, cuda::atomic_ref and cuda::barrier on the CPU.
//
//     cuda::atomic_ref<int, cuda::thread_scope_device> flag(*p);
//     flag.store(1, cuda::memory_order_release);            fence, then an atomic exchange
//     while (flag.load(cuda::memory_order_acquire) == 0);   atomic; lets the others go first
//
// All orders are executed as the strongest; the checks ask for what was written: only an operation
// whose order releases hands on what its thread did before (emulator/releases.hpp).
//
//     barrier   arrived 0 1 2 ... expected: back to 0, and the phase is the next
//     wait      until the phase is another than that of the token
//
// Not here: completion functions of barriers, and transaction counts.
// Reference: libcu++ documentation, "cuda::atomic_ref", "cuda::barrier".
#pragma once

#if !defined(__CUDACC__)

#include <cstddef>
#include <type_traits>
#include <utility>

#include "yotta/device/atomics.hpp"
#include "yotta/device/cuda_pipeline.hpp"

namespace cuda {
inline namespace YOTTA_DEVICE_BUILD {

enum memory_order {
  memory_order_relaxed,
  memory_order_consume,
  memory_order_acquire,
  memory_order_release,
  memory_order_acq_rel,
  memory_order_seq_cst
};
namespace std {
using enum ::cuda::memory_order;
using memory_order = ::cuda::memory_order;
}  // namespace std

// What a thread did before is handed on by its next atomic operation.
inline void atomic_thread_fence(memory_order order, thread_scope scope = thread_scope_system) {
  if (order < memory_order_release) return;
  scope < thread_scope_block ? __threadfence() : __threadfence_block();
}

// The operations of both, on the value at Self::at().
template <class T, thread_scope Scope, class Self>
class AtomicOperations {
 public:
  static_assert(sizeof(T) <= 8, "the emulator has atomic operations on up to 8 bytes");
  using value_type = T;

  T load(memory_order = memory_order_seq_cst, yotta::Where where = yotta::Where::current()) const {
    yotta::emulator::give_way(where);  // who reads may wait for a change
    return yotta::emulator::atomically_read(at(), where);
  }
  void store(T value, memory_order order = memory_order_seq_cst,
             yotta::Where where = yotta::Where::current()) const {
    write(value, order, where);
  }
  T exchange(T value, memory_order order = memory_order_seq_cst,
             yotta::Where where = yotta::Where::current()) const {
    return change(order, where, [=](T) { return value; });
  }
  bool compare_exchange_strong(T& expected, T value, memory_order order = memory_order_seq_cst,
                               yotta::Where where = yotta::Where::current()) const {
    yotta::emulator::give_way(where);
    const T wanted = expected;
    expected = change(order, where, [=](T x) { return x == wanted ? value : x; });
    return expected == wanted;
  }
  // The second order, of an exchange that fails, asks for no more than the first.
  bool compare_exchange_strong(T& expected, T value, memory_order success, memory_order /*failure*/,
                               yotta::Where where = yotta::Where::current()) const {
    return compare_exchange_strong(expected, value, success, where);
  }
  bool compare_exchange_weak(T& expected, T value, memory_order order = memory_order_seq_cst,
                             yotta::Where where = yotta::Where::current()) const {
    return compare_exchange_strong(expected, value, order, where);
  }
  bool compare_exchange_weak(T& expected, T value, memory_order success, memory_order /*failure*/,
                             yotta::Where where = yotta::Where::current()) const {
    return compare_exchange_strong(expected, value, success, where);
  }
#define YOTTA_FETCH(word, expression)                                             \
  T word(T value, memory_order order = memory_order_seq_cst,                      \
         yotta::Where where = yotta::Where::current()) const {                    \
    return change(order, where, [=](T x) { return static_cast<T>(expression); }); \
  }
  YOTTA_FETCH(fetch_add, x + value)
  YOTTA_FETCH(fetch_sub, x - value)
  YOTTA_FETCH(fetch_and, x& value)
  YOTTA_FETCH(fetch_or, x | value)
  YOTTA_FETCH(fetch_xor, x ^ value)
  YOTTA_FETCH(fetch_min, value < x ? value : x)
  YOTTA_FETCH(fetch_max, x < value ? value : x)
#undef YOTTA_FETCH

  // Operators cannot be told a line: it is where they return to.
#define YOTTA_HERE static_cast<const void*>(__builtin_return_address(0))
#define YOTTA_OPERATOR __attribute__((noinline))
  YOTTA_OPERATOR operator T() const {
    yotta::emulator::give_way(yotta::Where());
    return yotta::emulator::atomically_read(at(), YOTTA_HERE);
  }
#define YOTTA_ATOMIC_OPERATOR(declared, operation, result)                                        \
  YOTTA_OPERATOR T declared const {                                                               \
    const T before =                                                                              \
        change(memory_order_seq_cst, YOTTA_HERE, [=](T x) { return static_cast<T>(operation); }); \
    return static_cast<T>(result);                                                                \
  }
  YOTTA_ATOMIC_OPERATOR(operator++(int), x + 1, before)
  YOTTA_ATOMIC_OPERATOR(operator--(int), x - 1, before)
  YOTTA_ATOMIC_OPERATOR(operator++(), x + 1, before + 1)
  YOTTA_ATOMIC_OPERATOR(operator--(), x - 1, before - 1)
  YOTTA_ATOMIC_OPERATOR(operator+=(T value), x + value, before + value)
  YOTTA_ATOMIC_OPERATOR(operator-=(T value), x - value, before - value)
  YOTTA_ATOMIC_OPERATOR(operator&=(T value), x& value, before& value)
  YOTTA_ATOMIC_OPERATOR(operator|=(T value), x | value, before | value)
  YOTTA_ATOMIC_OPERATOR(operator^=(T value), x ^ value, before ^ value)
#undef YOTTA_ATOMIC_OPERATOR

 protected:
  template <class Place>
  void write(T value, memory_order order, Place where) const {
    atomic_thread_fence(order, Scope);
    yotta::emulator::atomically_write(at(), value, where);
  }

 private:
  T* at() const { return static_cast<const Self*>(this)->at(); }
  template <class Place, class Change>
  T change(memory_order order, Place where, Change what) const {
    atomic_thread_fence(order, Scope);
    return yotta::emulator::atomically(at(), what, where);
  }
};

template <class T, thread_scope Scope = thread_scope_system>
class atomic_ref : public AtomicOperations<T, Scope, atomic_ref<T, Scope>> {
 public:
  explicit atomic_ref(T& value) : at_(&value) {}
  YOTTA_OPERATOR T operator=(T value) const {
    this->write(value, memory_order_seq_cst, YOTTA_HERE);
    return value;
  }
  T* at() const { return at_; }

 private:
  T* at_;
};

// The same with a value of its own.
template <class T, thread_scope Scope = thread_scope_system>
class atomic : public AtomicOperations<T, Scope, atomic<T, Scope>> {
 public:
  atomic() = default;
  constexpr atomic(T value) : value_(value) {}
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;
  YOTTA_OPERATOR T operator=(T value) {
    this->write(value, memory_order_seq_cst, YOTTA_HERE);
    return value;
  }
  T* at() const { return &value_; }

 private:
  mutable T value_;
};
#undef YOTTA_HERE
#undef YOTTA_OPERATOR

// Threads that wait for each other, in shared or global memory. Its memory is set by init().
template <thread_scope Scope, class Completion = void>
class barrier {
 public:
  static_assert(
      ::std::is_void_v<Completion>,
      "barriers with a completion function are not in the emulator: let one thread do it");
  using arrival_token = unsigned;

  [[nodiscard]] arrival_token arrive(unsigned count = 1,
                                     yotta::Where where = yotta::Where::current()) {
    const unsigned phase = atomic_ref<unsigned, Scope>(phase_).load(memory_order_acquire, where);
    atomic_ref<unsigned, Scope> arrived(arrived_);
    if (arrived.fetch_add(count, memory_order_acq_rel, where) + count == expected_) {
      arrived.store(0, memory_order_relaxed, where);
      atomic_ref<unsigned, Scope>(phase_).fetch_add(1, memory_order_acq_rel, where);
    }
    return phase;
  }
  void wait(arrival_token token, yotta::Where where = yotta::Where::current()) const {
    const atomic_ref<unsigned, Scope> phase(const_cast<unsigned&>(phase_));
    while (phase.load(memory_order_acquire, where) == token) continue;
  }
  void arrive_and_wait(yotta::Where where = yotta::Where::current()) {
    wait(arrive(1, where), where);
  }

  template <thread_scope S, class C>
  friend void init(barrier<S, C>* of, ::std::ptrdiff_t expected);

 private:
  unsigned expected_, arrived_, phase_;
};
template <thread_scope Scope, class Completion>
void init(barrier<Scope, Completion>* of, ::std::ptrdiff_t expected) {
  of->expected_ = static_cast<unsigned>(expected);
  of->arrived_ = of->phase_ = 0;
}

// The threads of a group copy together; complete when all have arrived at the barrier. Here the
// copy is made at once.
template <class Group, class Size, thread_scope Scope>
void memcpy_async(const Group& group, void* to, const void* from, Size size,
                  barrier<Scope>& /*until*/) {
  size_t bytes = 0;
  if constexpr (::std::is_integral_v<Size>)
    bytes = static_cast<size_t>(size);
  else
    bytes = size.value;
  for (size_t i = group.thread_rank(); i < bytes; i += group.size())
    static_cast<char*>(to)[i] = static_cast<const char*>(from)[i];
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace cuda

#endif
