// Switching between the scheduler and the lanes of one OS thread, each on its own stack.
//
//     scheduler   start(lane), to_lane(lane) ─┐           ┌─ goes on
//     lane                                    └─ to_scheduler() in a barrier
//
// A switch is one call of Boost.Context. AddressSanitizer must be told of each: the rest is those notes, as in
// core/system/fiber.hpp.
#pragma once

#include <boost/context/detail/fcontext.hpp>

#include "yotta/device/emulator/simt_lane.hpp"

#if YOTTA_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

class Switch {
 public:
  using Enter = void (*)(boost::context::detail::transfer_t);

  explicit Switch(const Stacks& stacks) : stacks_(stacks) {}

  // The lane will begin with enter(); what its stack held before is forgotten.
  void start(Lane& lane, Enter enter) {
    std::byte* const top = stacks_.top(lane.index);
    const auto bytes = static_cast<size_t>(top - bottom(lane));
#if YOTTA_ASAN
    __asan_unpoison_memory_region(bottom(lane), bytes);
#endif
    lane.context = boost::context::detail::make_fcontext(top, bytes, enter);
  }

  // From the scheduler into a lane, until that comes back.
  void to_lane(Lane& lane) {
#if YOTTA_ASAN
    __sanitizer_start_switch_fiber(&scheduler_notes_, bottom(lane), stack_bytes - page_bytes);
#endif
    const auto back = boost::context::detail::jump_fcontext(lane.context, &lane);
#if YOTTA_ASAN
    __sanitizer_finish_switch_fiber(scheduler_notes_, nullptr, nullptr);
#endif
    lane.context = back.fctx;
  }

  // The first thing that a lane does.
  void arrived(boost::context::detail::transfer_t from) {
    scheduler_ = from.fctx;
#if YOTTA_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_bottom_, &scheduler_bytes_);
#endif
  }

  // From a lane to the scheduler, until that resumes the lane; a lane that has returned never is.
  void to_scheduler([[maybe_unused]] Lane& lane) {
#if YOTTA_ASAN
    void** const notes = lane.state == LaneState::returned ? nullptr : &lane.sanitizer_notes;
    __sanitizer_start_switch_fiber(notes, scheduler_bottom_, scheduler_bytes_);
#endif
    const auto back = boost::context::detail::jump_fcontext(scheduler_, nullptr);
#if YOTTA_ASAN
    __sanitizer_finish_switch_fiber(lane.sanitizer_notes, &scheduler_bottom_, &scheduler_bytes_);
#endif
    scheduler_ = back.fctx;
  }

 private:
  std::byte* bottom(const Lane& lane) const { return stacks_.bottom(lane.index) + page_bytes; }

  const Stacks& stacks_;
  boost::context::detail::fcontext_t scheduler_ = nullptr;
#if YOTTA_ASAN
  void* scheduler_notes_ = nullptr;
  const void* scheduler_bottom_ = nullptr;
  size_t scheduler_bytes_ = 0;
#endif
};

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
