#include "yotta/comm/nccl/nccl_lanes.hpp"

#include <doctest/doctest.h>

#include "support/mailbox_nccl.hpp"
#include "support/message_of.hpp"
#include "yotta/comm/threads/thread_transport.hpp"
#include "yotta/device/cuda/cuda_accelerator.hpp"

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
          r, std::make_shared<NcclBootstrap>(std::make_shared<ThreadTransport>(world, r)), nccl[i],
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

// Through communicators, with all their ways: nccl_transport_test.cpp.

namespace {

struct MessageRank {
  std::shared_ptr<NcclBootstrap> bootstrap;
  std::shared_ptr<MailboxNccl> nccl;
  std::unique_ptr<NcclLanes> lanes;
  std::unique_ptr<NcclMessages> messages;
  MessageRank(int rank, const std::shared_ptr<ThreadWorld>& world,
              const std::shared_ptr<Mailboxes>& mail)
      : bootstrap(std::make_shared<NcclBootstrap>(std::make_shared<ThreadTransport>(world, rank))),
        nccl(std::make_shared<MailboxNccl>(mail)),
        lanes(std::make_unique<NcclLanes>(rank, bootstrap, nccl, Where::current())),
        messages(std::make_unique<NcclMessages>(rank, 2, bootstrap, *lanes)) {
    install_accelerator();
  }
};

const Call message_call{"send", 1, DType::f32, -1, "", "", Where::current()};

struct Message {
  Tensor data;
  Request request;
  Message(Request::Kind kind, int peer, int64_t tag, float value, int64_t count = 1)
      : data(Tensor::full({count}, value, DType::f32).to(Device::cuda)) {
    request.kind = kind;
    request.peer = peer;
    request.tag = tag;
    request.data = Data(data);
    request.call = &message_call;
  }
};

}  // namespace

TEST_CASE("a message that nobody wants yet waits in a buffer; its envelope is known to who waits") {
  auto world = std::make_shared<ThreadWorld>(2);
  auto mail = std::make_shared<Mailboxes>();
  MessageRank zero(0, world, mail), one(1, world, mail);
  Message seven(Request::Kind::send, 1, 7, 70), eight(Request::Kind::send, 1, 8, 80);
  Message wants_eight(Request::Kind::recv, 0, 8, 0), wants_seven(Request::Kind::recv, 0, 7, 0);
  one.messages->post(wants_eight.request, 5);
  CHECK(one.messages->waits_for(wants_eight.request) != nullptr);
  CHECK(one.messages->waits_for(wants_seven.request) == nullptr);
  zero.messages->post(seven.request, 5);
  zero.messages->post(eight.request, 5);
  const auto go_on = [&] {
    for (int i = 0; i < 30; ++i) {
      zero.messages->advance();
      zero.lanes->pump_all();
      one.messages->advance();
      one.lanes->pump_all();
    }
  };
  go_on();
  REQUIRE(wants_eight.request.done);
  one.lanes->see(wants_eight.request.handle);
  CHECK(wants_eight.data.item({0}) == 80);
  one.messages->post(wants_seven.request, 5);
  go_on();
  REQUIRE(wants_seven.request.done);
  CHECK(wants_seven.data.item({0}) == 70);
  // The same tag in another group is another message.
  Message other(Request::Kind::send, 1, 7, 71), wants(Request::Kind::recv, 0, 7, 0);
  zero.messages->post(other.request, 6);
  one.messages->post(wants.request, 5);
  go_on();
  CHECK_FALSE(wants.request.done);
  CHECK(one.messages->withdraw(wants.request));
  CHECK_FALSE(one.messages->withdraw(wants.request));
}

TEST_CASE("two sides that differ are told of each other, also a rank and itself") {
  auto world = std::make_shared<ThreadWorld>(2);
  MessageRank zero(0, world, std::make_shared<Mailboxes>());
  Message sent(Request::Kind::send, 0, 1, 3, 2), got(Request::Kind::recv, 0, 1, 0, 3);
  zero.messages->post(sent.request, 5);
  CHECK_FALSE(sent.request.done);
  const std::string text = message_of([&] { zero.messages->post(got.request, 5); });
  CHECK(contains(text, "rank 0 sends 2 f32 at nccl_lanes_test.cpp:"));
  CHECK(contains(text, "rank 0 receives 3 f32 at nccl_lanes_test.cpp:"));
}
