#include "yotta/comm/matching/message_matcher.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <deque>

using namespace yotta;

namespace {
const Call the_call{"send", 2, DType::f32, -1, "", "", Where::current()};
struct Message : Request {
  Message(Kind its_kind, int its_owner, int its_peer, int64_t its_tag, int its_group = 0) {
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
  RequestMatcher matcher(3);
  Message other_sender(send, 2, 1, 7), other_tag(send, 0, 1, 8), other_group(send, 0, 1, 7, 4);
  Message other_receiver(send, 0, 2, 7), first(send, 0, 1, 7), second(send, 0, 1, 7);
  for (Message* message :
       {&other_sender, &other_tag, &other_group, &other_receiver, &first, &second})
    matcher.add(*message);
  const Message wanted(recv, 1, 0, 7);
  CHECK(matcher.find(wanted) == &first);
  matcher.remove(first);
  CHECK(matcher.find(wanted) == &second);
  matcher.remove(second);
  CHECK(matcher.find(wanted) == nullptr);
  CHECK(matcher.find(Message(recv, 1, 0, 7, 4)) == &other_group);
}

TEST_CASE("a send finds the recv that waits for it") {
  RequestMatcher matcher(2);
  Message waiting(recv, 1, 0, 7);
  matcher.add(waiting);
  CHECK(matcher.find(Message(send, 0, 1, 7)) == &waiting);
  CHECK(matcher.find(Message(send, 0, 1, 6)) == nullptr);
  CHECK(matcher.find(Message(recv, 0, 1, 7)) == nullptr);
}

TEST_CASE("what lies there under another tag, and what nobody received") {
  RequestMatcher matcher(2);
  CHECK(matcher.find_unreceived().empty());
  Message sent(send, 0, 1, 7), internal(send, 0, 1, -1);
  matcher.add(internal);
  const Message wanted(recv, 1, 0, 8);
  CHECK(matcher.find_other_tag(wanted).empty());  // a collective's message is no hint
  matcher.add(sent);
  CHECK(matcher.find_other_tag(wanted).starts_with(
      "rank 0 has sent tag 7 at message_matcher_test.cpp:"));
  CHECK(matcher.find_other_tag(wanted).ends_with("but rank 1 waits for tag 8"));
  CHECK(matcher.find_other_tag(Message(recv, 1, 0, 7, 2)).ends_with("in another communicator"));
  matcher.remove(internal);
  CHECK(matcher.find_unreceived().starts_with("rank 0 sent 2 f32 with tag 7 to rank 1"));
}

// Receives and messages of a transport that keeps a message's bytes: here, of one rank.
namespace {

struct Recv : Request {
  Recv(int from, int64_t wanted_tag) {
    kind = Kind::recv;
    peer = from;
    tag = wanted_tag;
    owner = 5;
  }
};
using TextMatcher = MessageMatcher<std::string>;

Envelope envelope(int from, int64_t tag, uint64_t group = 0) { return {group, from, tag}; }
// The receive that a message is for, which is posted no longer.
Request* take_posted(TextMatcher& matcher, const Envelope& of) {
  Request* const found = matcher.find_posted(of);
  if (found != nullptr) CHECK(matcher.remove_posted(of, *found));
  return found;
}

}  // namespace

TEST_CASE("receives first: a message goes to the first that it belongs to") {
  TextMatcher matcher;
  Recv other_peer(2, 7), other_tag(1, 8), other_group(1, 7), first(1, 7), second(1, 7);
  CHECK(matcher.first_posted() == nullptr);
  matcher.add_posted(envelope(2, 7), other_peer);
  matcher.add_posted(envelope(1, 8), other_tag);
  matcher.add_posted(envelope(1, 7, 9), other_group);
  matcher.add_posted(envelope(1, 7), first);
  matcher.add_posted(envelope(1, 7), second);
  CHECK(matcher.first_posted() == &other_peer);
  CHECK(take_posted(matcher, envelope(1, 7)) == &first);
  CHECK_FALSE(matcher.is_posted(first));
  CHECK(matcher.is_posted(second));
  CHECK(take_posted(matcher, envelope(1, 7)) == &second);
  CHECK(take_posted(matcher, envelope(1, 7)) == nullptr);
  CHECK(take_posted(matcher, envelope(1, 7, 9)) == &other_group);
  CHECK(matcher.remove_posted(other_tag));
  CHECK_FALSE(matcher.remove_posted(other_tag));
  CHECK(take_posted(matcher, envelope(1, 8)) == nullptr);
}

TEST_CASE("messages first: a receive takes the first that belongs to it") {
  TextMatcher matcher;
  CHECK(matcher.first_unexpected() == nullptr);
  matcher.add_unexpected(envelope(1, 8), "other tag");
  matcher.add_unexpected(envelope(2, 7), "other peer");
  matcher.add_unexpected(envelope(1, 7), "first");
  matcher.add_unexpected(envelope(1, 7), "second");
  const Envelope wanted = envelope(1, 7);
  CHECK(*matcher.find_unexpected(wanted) == "first");
  CHECK(matcher.take_unexpected(wanted) == "first");
  matcher.put_back(wanted, "first again");
  CHECK(matcher.take_unexpected(wanted) == "first again");
  CHECK(matcher.take_unexpected(wanted) == "second");
  CHECK_FALSE(matcher.take_unexpected(wanted).has_value());
  CHECK(matcher.find_unexpected(wanted) == nullptr);
  CHECK(matcher.first_unexpected()->message == "other tag");
  const auto* const other = matcher.find_other_tag(wanted);
  REQUIRE(other != nullptr);
  CHECK(describe_other_tag(other->envelope, "", wanted, 5) ==
        "rank 1 has sent tag 8, but rank 5 waits for tag 7");
  CHECK(matcher.find_other_tag(envelope(3, 7)) == nullptr);
  Recv posted(1, 7);
  matcher.add_posted(wanted, posted);
  matcher.clear();
  CHECK(matcher.first_unexpected() == nullptr);
  CHECK(matcher.first_posted() == nullptr);
}

// CPU seconds of this thread in which n messages and n receives are matched, the last first.
double seconds_to_match(int64_t n) {
  const std::clock_t begin = std::clock();
  TextMatcher matcher;
  std::deque<Recv> receives;
  for (int64_t tag = 0; tag < n; ++tag) {
    matcher.add_unexpected(envelope(1, tag), "");
    matcher.add_posted(envelope(2, tag), receives.emplace_back(2, tag));
  }
  for (int64_t tag = n; tag-- > 0;) {
    if (!matcher.take_unexpected(envelope(1, tag)).has_value()) FAIL("no message ", tag);
    if (take_posted(matcher, envelope(2, tag)) == nullptr) FAIL("no receive ", tag);
  }
  CHECK(matcher.first_posted() == nullptr);
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

TEST_CASE("unmatched messages and receives are matched without a search through all") {
  double few = 1e300, many = 1e300;
  for (int tries = 0; tries < 3; ++tries) {
    few = std::min(few, seconds_to_match(5000));
    many = std::min(many, seconds_to_match(40000));
  }
  CHECK(many < 30 * few);  // 8 times as many: a search takes 64 times as long
}

TEST_CASE("messages of collectives are no hint for the user") {
  TextMatcher matcher;
  matcher.add_unexpected(envelope(1, -3), "");
  CHECK(matcher.find_other_tag(envelope(1, 7)) == nullptr);
}

TEST_CASE("the right tag in another communicator is called so") {
  TextMatcher matcher;
  matcher.add_unexpected(envelope(1, 7, 9), "");
  const auto* const other = matcher.find_other_tag(envelope(1, 7));
  REQUIRE(other != nullptr);
  CHECK(describe_other_tag(other->envelope, "", envelope(1, 7), 5) ==
        "rank 1 has sent tag 7, but rank 5 waits for tag 7 in another communicator");
  CHECK(matcher.find_other_tag(envelope(1, 7, 9)) == nullptr);  // just what it waits for
}
