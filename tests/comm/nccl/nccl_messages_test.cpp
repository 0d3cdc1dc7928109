#include "yotta/comm/nccl/nccl_messages.hpp"

#include <doctest/doctest.h>

#include "support/mailbox_nccl.hpp"
#include "support/message_of.hpp"
#include "yotta/comm/threads/threads.hpp"
#include "yotta/device/cuda/cuda_accelerator.hpp"

using namespace yotta;
using namespace yotta_test;

// Through communicators, with all their ways: nccl_transport_test.cpp.

namespace {

struct MessageRank {
  std::shared_ptr<NcclLetters> letters;
  std::shared_ptr<MailboxNccl> nccl;
  std::unique_ptr<NcclLanes> lanes;
  std::unique_ptr<NcclMessages> messages;
  MessageRank(int rank, const std::shared_ptr<ThreadWorld>& world,
              const std::shared_ptr<Mailboxes>& mail)
      : letters(std::make_shared<NcclLetters>(std::make_shared<ThreadTransport>(world, rank))),
        nccl(std::make_shared<MailboxNccl>(mail)),
        lanes(std::make_unique<NcclLanes>(rank, letters, nccl, Where::current())),
        messages(std::make_unique<NcclMessages>(rank, 2, letters, *lanes)) {
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

TEST_CASE("a message that nobody wants yet waits in a buffer; its letter is known to who waits") {
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
  CHECK(contains(text, "rank 0 sends 2 f32 at nccl_messages_test.cpp:"));
  CHECK(contains(text, "rank 0 receives 3 f32 at nccl_messages_test.cpp:"));
}
