#include "yotta/comm/matching/message_matcher.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {
const Call the_call{"send", 2, DType::f32, -1, "", "", Where::current()};
struct Letter : Request {
  Letter(Kind its_kind, int its_owner, int its_peer, int64_t its_tag, int its_group = 0) {
    kind = its_kind;
    owner = its_owner;
    peer = its_peer;
    tag = its_tag;
    group = its_group;
    data = {nullptr, 2, DType::f32};
    call = &the_call;
  }
};
constexpr auto send = Request::Kind::send;
constexpr auto recv = Request::Kind::recv;
}  // namespace

TEST_CASE("a recv finds the first send of its sender, tag and group, and only that") {
  MessageMatcher boxes(3);
  Letter other_sender(send, 2, 1, 7), other_tag(send, 0, 1, 8), other_group(send, 0, 1, 7, 4);
  Letter other_receiver(send, 0, 2, 7), first(send, 0, 1, 7), second(send, 0, 1, 7);
  for (Letter* letter : {&other_sender, &other_tag, &other_group, &other_receiver, &first, &second})
    boxes.add(*letter);
  const Letter wanted(recv, 1, 0, 7);
  CHECK(boxes.find(wanted) == &first);
  boxes.remove(first);
  CHECK(boxes.find(wanted) == &second);
  boxes.remove(second);
  CHECK(boxes.find(wanted) == nullptr);
  CHECK(boxes.find(Letter(recv, 1, 0, 7, 4)) == &other_group);
}

TEST_CASE("a send finds the recv that waits for it") {
  MessageMatcher boxes(2);
  Letter waiting(recv, 1, 0, 7);
  boxes.add(waiting);
  CHECK(boxes.find(Letter(send, 0, 1, 7)) == &waiting);
  CHECK(boxes.find(Letter(send, 0, 1, 6)) == nullptr);
  CHECK(boxes.find(Letter(recv, 0, 1, 7)) == nullptr);
}

TEST_CASE("what lies there under another tag, and what nobody received") {
  MessageMatcher boxes(2);
  CHECK(boxes.find_unreceived().empty());
  Letter sent(send, 0, 1, 7), internal(send, 0, 1, -1);
  boxes.add(internal);
  const Letter wanted(recv, 1, 0, 8);
  CHECK(boxes.find_other_tag(wanted).empty());  // a collective's message is no hint
  boxes.add(sent);
  CHECK(boxes.find_other_tag(wanted).starts_with("rank 0 has sent tag 7 at message_matcher_test.cpp:"));
  CHECK(boxes.find_other_tag(wanted).ends_with("but rank 1 waits for tag 8"));
  CHECK(boxes.find_other_tag(Letter(recv, 1, 0, 7, 2)).ends_with("in another communicator"));
  boxes.remove(internal);
  CHECK(boxes.find_unreceived().starts_with("rank 0 sent 2 f32 with tag 7 to rank 1"));
}
