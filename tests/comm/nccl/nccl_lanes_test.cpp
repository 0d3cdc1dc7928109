#include "yotta/comm/nccl/nccl_lanes.hpp"

#include <doctest/doctest.h>

#include "support/mailbox_nccl.hpp"
#include "yotta/comm/threads/threads.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// Both ranks of a world, by turns on this thread.
struct TwoLaneRanks {
  std::shared_ptr<ThreadWorld> world = std::make_shared<ThreadWorld>(2);
  std::shared_ptr<Mailboxes> mail = std::make_shared<Mailboxes>();
  std::array<std::shared_ptr<MailboxNccl>, 2> nccl;
  std::array<std::unique_ptr<NcclLanes>, 2> lanes;
  TwoLaneRanks() {
    for (int r = 0; r < 2; ++r) {
      const auto i = static_cast<size_t>(r);
      nccl[i] = std::make_shared<MailboxNccl>(mail);
      lanes[i] = std::make_unique<NcclLanes>(
          r, std::make_shared<NcclLetters>(std::make_shared<ThreadTransport>(world, r)), nccl[i],
          Where::current());
    }
  }
};

}  // namespace

TEST_CASE("a lane is joined when all have come, and its tasks run in order") {
  TwoLaneRanks ranks;
  std::string order;
  const auto note = [&](const char* text) {
    return [&order, text](NcclLibrary&, NcclLibrary::Handle) { order += text; };
  };
  NcclLane& zero = ranks.lanes[0]->of_group(0, {0, 1}, 5);
  ranks.lanes[0]->add(zero, {nullptr, note("a")});
  ranks.lanes[0]->add(zero, {nullptr, note("b")});
  for (int i = 0; i < 10; ++i) CHECK(ranks.lanes[0]->pump_all() != nullptr);
  CHECK(order == "");
  NcclLane& one = ranks.lanes[1]->of_group(3, {0, 1}, 5);  // another number, the same name
  ranks.lanes[1]->add(one, {nullptr, note("c")});
  for (int i = 0; i < 20; ++i) ranks.lanes[0]->pump_all();
  CHECK(order == "ab");
  for (int i = 0; i < 20; ++i) ranks.lanes[1]->pump_all();
  CHECK(order == "abc");
  CHECK(ranks.lanes[0]->pump_all() == nullptr);
  CHECK(ranks.mail->ids == 1);
  CHECK(ranks.lanes[0]->find_group(0) == &zero);
  CHECK(ranks.lanes[0]->find_group(1) == nullptr);
}

TEST_CASE("a request is done when NCCL has it, a detached one when the device has done it") {
  TwoLaneRanks ranks;
  std::array<float, 2> data = {1, 2}, got = {0, 0};
  const Call call;
  Request sent, kept;
  sent.call = kept.call = &call;
  kept.is_detached = true;
  NcclLane& zero = ranks.lanes[0]->between(0, 1);
  NcclLane& one = ranks.lanes[1]->between(0, 1);
  const auto send = [&](NcclLibrary& nccl, NcclLibrary::Handle handle) {
    nccl.send(handle, std::span<const float>(data), 1);
  };
  ranks.lanes[0]->add(zero, {&sent, send});
  ranks.lanes[0]->add(zero, {&kept, send});
  CHECK(ranks.lanes[0]->find(sent) == &zero);
  NcclLibrary::Mark taken = 0;
  for (int i = 0; i < 2; ++i)
    ranks.lanes[1]->add(one, {nullptr,
                              [&](NcclLibrary& nccl, NcclLibrary::Handle handle) {
                                nccl.recv(handle, std::span<float>(got), 0);
                              },
                              [&](NcclLibrary::Mark mark) { taken = mark; }});
  for (int i = 0; i < 20; ++i) {
    ranks.lanes[0]->pump_all();
    ranks.lanes[1]->pump_all();
  }
  CHECK(sent.done);
  CHECK_FALSE(kept.done);
  CHECK(ranks.lanes[0]->pump_all(/*leaving=*/true) == &kept);
  ranks.lanes[1]->see(taken);  // the receiver's device goes on
  CHECK(got[1] == 2);
  ranks.lanes[0]->pump_all();
  CHECK(kept.done);
  CHECK(ranks.lanes[0]->pump_all(/*leaving=*/true) == nullptr);
}

TEST_CASE("what NCCL has not begun is taken back; what it has ends the lane; a failure ends all") {
  TwoLaneRanks ranks;
  const Call call;
  Request waits, runs;
  waits.call = runs.call = &call;
  NcclLane& lane = ranks.lanes[0]->between(0, 1);
  const auto nothing = [](NcclLibrary&, NcclLibrary::Handle) {};
  ranks.lanes[0]->add(lane, {&runs, nothing});
  ranks.lanes[0]->add(lane, {&waits, nothing});
  ranks.lanes[0]->withdraw(lane, waits);
  CHECK(ranks.lanes[0]->find(waits) == nullptr);
  CHECK(ranks.mail->aborts == 0);
  ranks.lanes[1]->add(ranks.lanes[1]->between(0, 1), {nullptr, nothing});
  while (!lane.busy) ranks.lanes[0]->pump_all();
  ranks.lanes[0]->withdraw(lane, runs);
  CHECK(ranks.mail->aborts == 1);
  ranks.lanes[1]->leave_all(true);
  Request late;
  late.call = &call;
  ranks.lanes[1]->add(ranks.lanes[1]->between(0, 1), {&late, nothing});
  for (int i = 0; i < 20; ++i) ranks.lanes[1]->pump_all();
  CHECK_FALSE(late.done);
}
