#include "yotta/comm/nccl/nccl_lanes.hpp"

#include <doctest/doctest.h>

#include "support/longest_wait.hpp"
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
  bool comes(const std::function<bool()>& done) {
    return yotta_test::comes([&] {
      for (const auto& each : lanes) each->pump_all();
      return done();
    });
  }
};

}  // namespace

TEST_CASE("a lane is joined when all have come, and its tasks run in order") {
  TwoLaneRanks ranks;
  std::string order, other;
  const auto note = [](std::string& to, const char* text) {
    return [&to, text](NcclLibrary&, NcclLibrary::Handle) { to += text; };
  };
  NcclLane& zero = ranks.lanes[0]->of_group(0, {0, 1}, 5, false);
  ranks.lanes[0]->add(zero, {nullptr, note(order, "a")});
  ranks.lanes[0]->add(zero, {nullptr, note(order, "b")});
  for (int i = 0; i < 10; ++i) CHECK(ranks.lanes[0]->pump_all() != nullptr);
  CHECK(order == "");
  NcclLane& one = ranks.lanes[1]->of_group(3, {0, 1}, 5, false);  // another number, the same name
  ranks.lanes[1]->add(one, {nullptr, note(other, "c")});
  CHECK(comes([&] { return ranks.lanes[0]->pump_all() == nullptr; }));
  CHECK(order == "ab");
  CHECK(comes([&] { return ranks.lanes[1]->pump_all() == nullptr; }));
  CHECK(other == "c");
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
  const auto receive = [&] {
    taken = 0;
    ranks.lanes[1]->add(one, {nullptr,
                              [&](NcclLibrary& nccl, NcclLibrary::Handle handle) {
                                nccl.recv(handle, std::span<float>(got), 0);
                              },
                              [&](NcclLibrary::Mark mark) { taken = mark; }});
    CHECK(ranks.comes([&] { return taken != 0; }));
    ranks.lanes[1]->see(taken);  // the receiver's device goes on
  };
  receive();
  CHECK(ranks.comes([&] { return sent.done && ranks.lanes[0]->pump_all() == nullptr; }));
  CHECK_FALSE(kept.done);
  CHECK(ranks.lanes[0]->pump_all(/*leaving=*/true) == &kept);
  receive();
  CHECK(got[1] == 2);
  CHECK(ranks.comes([&] { return kept.done.load(); }));
  CHECK(ranks.lanes[0]->pump_all(/*leaving=*/true) == nullptr);
}

TEST_CASE("lanes of groups are given their tasks in the order of the calls, whichever is ready") {
  TwoLaneRanks ranks;
  std::string order;
  const auto add = [&](int rank, int group, uint64_t id, const char* text) {
    NcclLanes& lanes = *ranks.lanes[static_cast<size_t>(rank)];
    lanes.add(lanes.of_group(group, {0, 1}, id, false),
              {nullptr, [&order, text](NcclLibrary&, NcclLibrary::Handle) { order += text; }});
  };
  add(0, 0, 5, "a");
  add(0, 1, 6, "b");
  add(0, 0, 5, "c");
  add(1, 1, 6, "");  // b could begin
  int looks = 0;
  CHECK(ranks.comes([&] { return ++looks == 50; }));
  CHECK(order == "");
  add(1, 0, 5, "");
  CHECK(ranks.comes([&] { return ranks.lanes[0]->pump_all() == nullptr; }));
  CHECK(order == "abc");
}

TEST_CASE("a message of a group does not wait for another of the group") {
  TwoLaneRanks ranks;
  std::array<float, 1> late = {0}, mine = {0};
  const std::array<float, 1> three = {3}, four = {4};
  const auto add = [&](int rank, auto start) {
    NcclLanes& lanes = *ranks.lanes[static_cast<size_t>(rank)];
    lanes.add(lanes.of_group(0, {0, 1}, 5, false), {nullptr, start});
  };
  add(0, [&](NcclLibrary& nccl, NcclLibrary::Handle lane) {
    nccl.begin_group();
    nccl.recv(lane, std::span<float>(late), 1);
    nccl.send(lane, std::span<const float>(three), 0);
    nccl.recv(lane, std::span<float>(mine), 0);
    nccl.end_group();
  });
  const auto holds = [&](const std::array<float, 1>& x, float value) {
    const auto lock = ranks.mail->lock();
    return x[0] == value;
  };
  add(1, [](NcclLibrary&, NcclLibrary::Handle) {});
  CHECK(ranks.comes([&] { return holds(mine, 3); }));
  CHECK(holds(late, 0));
  add(1, [&](NcclLibrary& nccl, NcclLibrary::Handle lane) {
    nccl.begin_group();
    nccl.send(lane, std::span<const float>(four), 0);
    nccl.end_group();
  });
  CHECK(ranks.comes([&] { return holds(late, 4); }));
}

TEST_CASE("what NCCL has not begun is taken back; what it has ends the lane; a failure ends all") {
  TwoLaneRanks ranks;
  const Call call;
  Request waits, runs;
  waits.call = runs.call = &call;
  NcclLane& lane = ranks.lanes[0]->between(0, 1);
  const auto nothing = [](NcclLibrary&, NcclLibrary::Handle) {};
  const std::array<float, 1> data = {1};
  ranks.lanes[0]->add(lane, {nullptr, nothing});
  ranks.lanes[1]->add(ranks.lanes[1]->between(0, 1), {nullptr, nothing});
  CHECK(ranks.comes([&] { return ranks.lanes[0]->pump_all() == nullptr; }));
  ranks.nccl[0]->is_stuck = true;
  ranks.lanes[0]->add(lane, {&runs, [&](NcclLibrary& nccl, NcclLibrary::Handle handle) {
                               nccl.send(handle, std::span<const float>(data), 1);
                             }});
  ranks.lanes[0]->add(lane, {&waits, nothing});
  ranks.lanes[0]->withdraw(lane, waits);
  CHECK(ranks.lanes[0]->find(waits) == nullptr);
  CHECK(ranks.mail->aborts == 0);
  CHECK(lane.busy);
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
    zero.messages->advance();
    zero.lanes->pump_all();
    one.messages->advance();
    one.lanes->pump_all();
  };
  one.nccl->meanwhile = go_on;  // the other rank is not idle while this one waits
  const auto gets = [&](const Message& message) {
    return comes([&] {
      go_on();
      return message.request.done.load();
    });
  };
  REQUIRE(gets(wants_eight));
  one.lanes->see(wants_eight.request.handle);
  CHECK(wants_eight.data.item({0}) == 80);
  one.messages->post(wants_seven.request, 5);
  REQUIRE(gets(wants_seven));
  CHECK(wants_seven.data.item({0}) == 70);
  // The same tag in another group is another message.
  Message other(Request::Kind::send, 1, 7, 71), wants(Request::Kind::recv, 0, 7, 0);
  zero.messages->post(other.request, 6);
  one.messages->post(wants.request, 5);
  for (int i = 0; i < 30; ++i) go_on();
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
