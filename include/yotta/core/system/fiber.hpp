// Fibers: functions that can stop in the middle and go on later, on the same thread.
//
//     rank's own code            fiber: an all_reduce in flight
//     ───────────────            ───────────────────────────────
//     work = all_reduce_async()  send chunk, wait for a chunk ┐ suspend()
//     compute the next layer  ◄───────────────────────────────┘
//     work.wait() ── resume() ──► chunk is here: add it, send the next ...
//
// A blocking algorithm, written as a plain loop of send and recv, becomes an asynchronous one
// without being rewritten as a state machine. The emulator of CUDA runs each thread of a block as a
// fiber for the same reason: __syncthreads() is a suspend(). Switching costs some ten nanoseconds.
//
// Boost.Context switches the stacks. The sanitizers must be told of each switch: the rest of this
// file is those notes. Never suspend() inside a catch block: the runtime's list of caught
// exceptions belongs to the thread.
#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>
#include <exception>
#include <functional>
#include <utility>

#include "yotta/core/system/build.hpp"
#include "yotta/core/system/stack_overflow.hpp"

#if YOTTA_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if YOTTA_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace yotta {

class Fiber;
namespace detail {
YOTTA_THREAD_LOCAL Fiber* current_fiber = nullptr;
}

class Fiber {
 public:
  // The body starts at the first resume(). Its stack is given in bytes, with a guard page below.
  explicit Fiber(std::function<void()> body, size_t stack_bytes = 256 * 1024)
      : body_(std::move(body)) {
    boost::context::protected_fixedsize_stack stacks(stack_bytes);
    const boost::context::stack_context stack = stacks.allocate();
    stack_ = {static_cast<std::byte*>(stack.sp) - stack.size, stack.size};
#if YOTTA_ASAN
    // Frames that a fiber never returns from leave their marks on the stack; the memory may be
    // given to us again.
    __asan_unpoison_memory_region(stack_.low, stack_.bytes);
#endif
    inside_ = boost::context::fiber(
        std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack), stacks,
        [this](boost::context::fiber&& caller) { return run(std::move(caller)); });
  }
  ~Fiber() {
    if (!done_) unwind();
#if YOTTA_TSAN
    if (tsan_inside_ != nullptr) __tsan_destroy_fiber(tsan_inside_);
#endif
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  bool done() const { return done_; }

  // Runs the body until it suspends or ends; an exception that leaves the body arrives here.
  void resume() {
    watch_stacks([] { return current() == nullptr ? StackRange{} : current()->stack_; });
    Fiber* const outer = std::exchange(current(), this);
    before_entering();
    inside_ = std::move(inside_).resume();
    after_returning();
    current() = outer;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  // Back to whoever resumed the fiber that runs on this thread.
  static void suspend() {
    Fiber& self = *current();
    self.before_leaving(/*for_good=*/false);
    self.outside_ = std::move(self.outside_).resume();
    self.after_entering();
    if (self.unwinding_) throw Unwind{};
  }

  // The fiber that runs on this thread, or null.
  static Fiber*& current() { return detail::current_fiber; }

 private:
  struct Unwind {};  // thrown by suspend() in a fiber that is destroyed before its end

  boost::context::fiber run(boost::context::fiber&& caller) {
    outside_ = std::move(caller);
    after_entering();
    try {
      if (!unwinding_) body_();
    } catch (const Unwind&) {
    } catch (...) {
      error_ = std::current_exception();
    }
    done_ = true;
    before_leaving(/*for_good=*/true);
    return std::move(outside_);
  }
  // Resume an unfinished body once more so that its destructors run on its own stack.
  void unwind() {
    unwinding_ = true;
    try {
      resume();
    } catch (...) {  // thrown while unwinding: nobody is left to hear it
    }
  }

  // The four moments of a switch, for the sanitizers.
  void before_entering() {
#if YOTTA_ASAN
    __sanitizer_start_switch_fiber(&asan_outside_, stack_.low, stack_.bytes);
#endif
#if YOTTA_TSAN
    if (tsan_inside_ == nullptr) tsan_inside_ = __tsan_create_fiber(0);
    tsan_outside_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_inside_, 0);
#endif
  }
  void after_entering() {
#if YOTTA_ASAN
    __sanitizer_finish_switch_fiber(asan_inside_, &outer_bottom_, &outer_bytes_);
#endif
  }
  void before_leaving([[maybe_unused]] bool for_good) {
#if YOTTA_ASAN
    __sanitizer_start_switch_fiber(for_good ? nullptr : &asan_inside_, outer_bottom_, outer_bytes_);
#endif
#if YOTTA_TSAN
    __tsan_switch_to_fiber(tsan_outside_, 0);
#endif
  }
  void after_returning() {
#if YOTTA_ASAN
    __sanitizer_finish_switch_fiber(asan_outside_, nullptr, nullptr);
#endif
  }

  std::function<void()> body_;
  boost::context::fiber inside_, outside_;
  StackRange stack_;
  std::exception_ptr error_;
  bool done_ = false, unwinding_ = false;
#if YOTTA_ASAN
  void* asan_inside_ = nullptr;
  void* asan_outside_ = nullptr;
  const void* outer_bottom_ = nullptr;
  size_t outer_bytes_ = 0;
#endif
#if YOTTA_TSAN
  void* tsan_inside_ = nullptr;
  void* tsan_outside_ = nullptr;
#endif
};

}  // namespace yotta
