#include "yotta/comm/tcp/tcp_inbox.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {

struct Recv : Request {
  Recv(int from, int64_t wanted_tag, int64_t count = 3) {
    kind = Kind::recv;
    peer = from;
    tag = wanted_tag;
    owner = 5;
    data.count = count;
    data.dtype = DType::f32;
  }
};
TcpFrame frame(int64_t tag, uint64_t group = 0, int64_t count = 3) {
  return {.dtype = DType::f32, .group = group, .tag = tag, .count = count};
}

}  // namespace

TEST_CASE("receives first: a message goes to the first that it belongs to") {
  TcpInbox inbox;
  Recv other_peer(2, 7), other_tag(1, 8), other_group(1, 7), first(1, 7), second(1, 7);
  CHECK_FALSE(inbox.post(other_peer, 0).has_value());
  CHECK_FALSE(inbox.post(other_tag, 0).has_value());
  CHECK_FALSE(inbox.post(other_group, 9).has_value());
  CHECK_FALSE(inbox.post(first, 0).has_value());
  CHECK_FALSE(inbox.post(second, 0).has_value());
  CHECK(inbox.take(1, frame(7), false) == &first);
  CHECK(inbox.take(1, frame(7), false) == &second);
  CHECK(inbox.take(1, frame(7), false) == nullptr);
  CHECK(inbox.take(1, frame(7, 9), false) == &other_group);
  inbox.remove(other_tag);
  CHECK(inbox.take(1, frame(8), false) == nullptr);
}

TEST_CASE("messages first: a receive takes the first that belongs to it") {
  TcpInbox inbox;
  CHECK(inbox.first_kept() == nullptr);
  inbox.keep({1, frame(8), "other tag"});
  inbox.keep({2, frame(7), "other peer"});
  inbox.keep({1, frame(7), "first"});
  inbox.keep({1, frame(7), "second"});
  Recv recv(1, 7);
  CHECK(inbox.post(recv, 0)->bytes == "first");
  CHECK(inbox.post(recv, 0)->bytes == "second");
  CHECK_FALSE(inbox.post(recv, 0).has_value());
  CHECK(inbox.first_kept()->bytes == "other tag");
  CHECK(inbox.find_other_tag(recv, 0) == "rank 1 has sent tag 8, but rank 5 waits for tag 7");
  CHECK(inbox.find_other_tag(Recv(3, 7), 0).empty());
  inbox.clear();
  CHECK(inbox.first_kept() == nullptr);
  CHECK(inbox.take(1, frame(7), false) == nullptr);
}

TEST_CASE("a receive of another count or type is not overtaken by a later one that fits") {
  TcpInbox inbox;
  Recv wrong(1, 7, 4), right(1, 7);
  inbox.post(wrong, 0);
  inbox.post(right, 0);
  CHECK(inbox.take(1, frame(7), true) == nullptr);
  CHECK(inbox.take(1, frame(7), false) == &wrong);
  CHECK(inbox.take(1, frame(7), true) == &right);
  CHECK_FALSE(fits(frame(7), wrong));
  right.data.dtype = DType::f64;
  CHECK_FALSE(fits(frame(7), right));
}

TEST_CASE("messages of collectives are no hint for the user") {
  TcpInbox inbox;
  inbox.keep({1, frame(-3), ""});
  CHECK(inbox.find_other_tag(Recv(1, 7), 0).empty());
}

TEST_CASE("the right tag in another communicator is called so") {
  TcpInbox inbox;
  inbox.keep({1, frame(7, 9), ""});
  CHECK(inbox.find_other_tag(Recv(1, 7), 0) ==
        "rank 1 has sent tag 7, but rank 5 waits for tag 7 in another communicator");
  CHECK(inbox.find_other_tag(Recv(1, 7), 9).empty());  // just what it waits for
}
