#include "yotta/comm/sockets/socket_frames.hpp"

#include <doctest/doctest.h>

#include "comm/local_sockets.hpp"

using namespace yotta;
using namespace yotta_test;
using Kind = SocketFrame::Kind;

namespace {

std::string bytes_of(SocketFrame frame, const std::string& bytes = "") {
  frame.bytes = frame.count = std::ssize(bytes);
  return std::string(reinterpret_cast<const char*>(&frame), sizeof frame) + bytes;
}
SocketFrame frame_of(Kind kind, int32_t world, int64_t tag) {
  return {.kind = kind, .world = world, .tag = tag};
}
std::span<const std::byte> bytes_of_text(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

TEST_CASE("a stream is read wherever it is cut: frames with bytes, and without") {
  const std::string stream = bytes_of(frame_of(Kind::message, 1, 7), "abc") +
                             bytes_of(frame_of(Kind::control, 1, 2)) +
                             bytes_of(frame_of(Kind::message, 1, 8), std::string(100, 'x'));
  for (size_t cut = 1; cut <= stream.size(); ++cut) {
    SocketInbox inbox(2);
    SocketNotes notes;
    inbox.attach(1, &notes);
    for (size_t at = 0; at < stream.size(); at += cut)
      inbox.take(1, bytes_of_text(stream.substr(at, cut)));
    REQUIRE(notes.notes.size() == 3);
    CHECK((notes.notes[0].tag == 7 && notes.notes[0].bytes == "abc" && notes.notes[0].from == 1));
    CHECK((notes.notes[1].tag == 2 && notes.notes[1].bytes.empty()));
    CHECK((notes.notes[2].tag == 8 && notes.notes[2].bytes == std::string(100, 'x')));
  }
}

TEST_CASE("bytes go straight to the receive that is posted, until it is forgotten") {
  SocketInbox inbox(2);
  SocketNotes notes;
  inbox.attach(1, &notes);
  std::vector<uint8_t> here(6, '-');
  Request recv;
  recv.data = Data(here);
  notes.recv = &recv;
  CHECK(inbox.rest_of_frame(1).empty());
  const std::string stream = bytes_of(frame_of(Kind::message, 1, 7), "abcdef");
  inbox.take(1, bytes_of_text(stream.substr(0, stream.size() - 4)));
  CHECK(here == std::vector<uint8_t>{'a', 'b', '-', '-', '-', '-'});
  const std::span<std::byte> rest = inbox.rest_of_frame(1);
  CHECK((rest.size() == 4 && rest.data() == reinterpret_cast<std::byte*>(&here[2])));
  rest[0] = std::byte{'c'}, rest[1] = std::byte{'d'};
  inbox.has_come(1, 2);
  inbox.forget(recv);
  std::fill(here.begin(), here.end(), uint8_t{'-'});
  inbox.take(1, bytes_of_text("ef"));
  CHECK(here == std::vector<uint8_t>(6, '-'));
  REQUIRE(notes.notes.size() == 1);
  CHECK((notes.notes[0].recv == nullptr && notes.notes[0].bytes == "abcdef"));
}

TEST_CASE(
    "frames of a later run wait for it, those of an older one are dropped; texts are of none") {
  SocketInbox inbox(3);
  SocketNotes notes;
  inbox.attach(1, &notes);
  for (const int32_t world : {0, 1, 2})
    inbox.take(1, bytes_of_text(bytes_of(frame_of(Kind::message, world, world), "abc")));
  inbox.take(2, bytes_of_text(bytes_of(frame_of(Kind::text, 0, 0), "a text")));
  REQUIRE(notes.notes.size() == 1);
  CHECK(notes.notes[0].tag == 1);
  inbox.attach(2, &notes);
  REQUIRE(notes.notes.size() == 2);
  CHECK((notes.notes[1].tag == 2 && notes.notes[1].bytes == "abc"));
  CHECK(inbox.take_text(2) == "a text");
  CHECK_FALSE(inbox.take_text(2).has_value());
  inbox.detach(&notes);
  CHECK(inbox.receiver() == nullptr);
}

TEST_CASE("a goodbye says whom its sender has lost") {
  SocketInbox inbox(3);
  inbox.take(1, bytes_of_text(bytes_of(frame_of(Kind::goodbye, 0, -1))));
  CHECK((inbox.said_goodbye(1) && !inbox.said_goodbye(2) && inbox.lost() == -1));
  inbox.take(2, bytes_of_text(bytes_of(frame_of(Kind::goodbye, 0, 0))));
  CHECK((inbox.said_goodbye(2) && inbox.lost() == 0));
}
