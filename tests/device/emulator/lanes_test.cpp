#include "yotta/device/emulator/lanes.hpp"

#include <doctest/doctest.h>

#include <set>
#include <vector>

using namespace yotta::emulator;

namespace {

Switch* the_switch = nullptr;
std::vector<int> order;

void twice(boost::context::detail::transfer_t from) {
  Lane& self = *static_cast<Lane*>(from.data);
  the_switch->arrived(self, from);
  order.push_back(10 * self.index);
  the_switch->to_scheduler(self);
  order.push_back(10 * self.index + 1);
  self.state = LaneState::returned;
  the_switch->to_scheduler(self);
}

}  // namespace

TEST_CASE("stacks do not overlap, begin at different cache lines, and are used again") {
  Stacks* const stacks = Stacks::take();
  std::set<uintptr_t> offsets;
  for (int lane = 0; lane < most_threads; ++lane) {
    CHECK(stacks->top(lane) > stacks->bottom(lane) + page_bytes);
    CHECK(stacks->top(lane) <= stacks->bottom(lane + 1));
    CHECK(reinterpret_cast<uintptr_t>(stacks->top(lane)) % 64 == 0);
    offsets.insert(reinterpret_cast<uintptr_t>(stacks->top(lane)) % page_bytes);
  }
  CHECK(offsets.size() == 64);
  Stacks* const others = Stacks::take();
  CHECK(others != stacks);
  Stacks::give_back(others);
  Stacks::give_back(stacks);
  CHECK(Stacks::take() == stacks);
  Stacks::give_back(stacks);
}

TEST_CASE("outside of kernels no lane runs") { CHECK(this_lane == nullptr); }

TEST_CASE("lanes take turns with the scheduler, each on its own stack") {
  Stacks* const stacks = Stacks::take();
  Switch switching(*stacks);
  the_switch = &switching;
  Lane lanes[2];
  for (int i = 0; i < 2; ++i) {
    lanes[i].index = i;
    switching.start(lanes[i], twice);
  }
  for (const int i : {0, 1, 1, 0}) switching.to_lane(lanes[i]);
  CHECK(order == std::vector<int>{0, 10, 11, 1});
  CHECK(lanes[0].state == LaneState::returned);
  Stacks::give_back(stacks);
}
