#include "yotta/comm/tcp/tcp_frames.hpp"

#include <doctest/doctest.h>

#include <random>

#include "comm/local_tcp.hpp"
#include "support/message_of.hpp"
#include "support/stderr_text.hpp"

using namespace yotta;
using namespace yotta_test;
using Kind = TcpFrame::Kind;

namespace {

std::string bytes_of_part(const TcpPart& part, const std::string& bytes = "") {
  return std::string(reinterpret_cast<const char*>(&part), sizeof part) + bytes;
}
// A whole frame of u8 from rank 1 to rank 0.
TcpPart part_of(Kind kind, int64_t bytes = 0, int64_t number = 0) {
  TcpPart part{.from = 1, .to = 0, .number = number};
  part.frame = {.kind = kind, .world = 1, .count = bytes, .bytes = bytes};
  return part;
}
// What rank 0 of three says to it.
std::string fault_of(const TcpPart& part, const std::string& bytes = "") {
  TcpInbox inbox(0, 3);
  Notes notes;
  inbox.attach(1, &notes);
  const std::string fault = inbox.take(bytes_of_part(part, bytes), 1);
  CHECK(notes.notes.empty() == (!fault.empty() || part.frame.kind == Kind::goodbye));
  return fault;
}

}  // namespace

TEST_CASE("what ranks send is taken") {
  for (const Kind kind : {Kind::message, Kind::large, Kind::control}) {
    const std::string fault = fault_of(part_of(kind, 3), "abc");
    CHECK(fault == "");
  }
  for (const Kind kind : {Kind::offer, Kind::wanted, Kind::goodbye, Kind::message})
    CHECK(fault_of(part_of(kind)) == "");
  TcpPart collective = part_of(Kind::message, 3);
  collective.frame.tag = std::numeric_limits<int64_t>::min();
  CHECK(fault_of(collective, "abc") == "");
}

TEST_CASE("what no rank sends is refused by name: lengths, tags, types, kinds, ranks") {
  const auto refused = [&](auto change, const std::string& bytes, const std::string& words) {
    TcpPart part = part_of(Kind::message, std::ssize(bytes));
    change(part);
    const std::string fault = fault_of(part, bytes);
    CAPTURE(fault);
    CHECK(contains(fault, words));
  };
  using Part = TcpPart&;
  refused([](Part part) { part.frame.count = 1; }, "abc", "3 bytes for 1 u8");
  refused([](Part part) { part.frame.dtype = DType::f64; }, "abcdefgh", "8 bytes for 8 f64");
  refused([](Part part) { part.frame.count = -1; }, "abc", "-1 numbers");
  refused([](Part part) { part.frame.bytes = int64_t{1} << 40; }, "abc", "1099511627776 bytes");
  refused([](Part part) { part.frame.bytes = -3; }, "abc", "-3 bytes");
  refused([](Part part) { part.frame.dtype = static_cast<DType>(77); }, "abc", "type 77");
  refused([](Part part) { part.frame.kind = static_cast<Kind>(99); }, "abc", "kind 99");
  refused([](Part part) { part.frame.tag = int64_t{1} << 40; }, "abc", "tag 1099511627776");
  refused([](Part part) { part.frame.world = -1; }, "abc", "run -1");
  refused([](Part part) { part.from = 3; }, "abc", "from rank 3 to rank 0, of 3");
  refused([](Part part) { part.from = -1; }, "abc", "from rank -1 to rank 0");
  refused([](Part part) { part.to = 2; }, "abc", "from rank 1 to rank 2");
  refused([](Part part) { part.mark[0] = 'Y'; }, "abc", "not a message of this version");
  refused([](Part part) { part.offset = -1; }, "abc", "bytes -1 to 2 of 3");
  refused([](Part part) { part.offset = 1; }, "abc", "bytes 1 to 4 of 3");
  refused([](Part part) { part.number = 7; }, "abc", "part 7 where 0 was next");
  refused([](Part part) { part.frame = {.kind = Kind::goodbye, .tag = 3}; }, "",
          "the end of rank 3");
  refused([](Part part) { part.frame = {.kind = Kind::goodbye, .tag = -2}; }, "", "rank -2");
  refused([](Part part) { part.frame = {.kind = Kind::control, .tag = 99}; }, "", "message 99");
  refused([](Part part) { part.frame = {.kind = Kind::wanted, .bytes = 3}; }, "abc", "3 bytes");
  std::string fault;
  CHECK_FALSE(read_part("GET / HTTP/1.1", 1, 0, 3, fault).has_value());
  CHECK(fault == "14 bytes, less than a header");
}

TEST_CASE("a long frame comes in parts, in order; others are refused") {
  TcpInbox inbox(0, 3);
  Notes notes;
  inbox.attach(1, &notes);
  TcpPart first = part_of(Kind::message, 6), second = part_of(Kind::message, 6, 1);
  second.offset = 3;
  CHECK(inbox.take(bytes_of_part(first, "abc"), 1) == "");
  CHECK(notes.notes.empty());
  CHECK(inbox.take(bytes_of_part(second, "def"), 1) == "");
  REQUIRE(notes.notes.size() == 1);
  CHECK(notes.notes[0].bytes == "abcdef");
  CHECK(notes.notes[0].from == 1);
  first.number = 2;
  CHECK(inbox.take(bytes_of_part(first, "abc"), 1) == "");
  second.number = 3;
  second.frame.tag = 9;  // of another frame
  CHECK(contains(inbox.take(bytes_of_part(second, "def"), 1), "bytes 3 of a frame where 3 of"));
  second.number = 3;
  CHECK(contains(inbox.take(bytes_of_part(second, "def"), 1), "part 3 where 4 was next"));
}

TEST_CASE("bytes go to the receive that is posted, until it is forgotten") {
  TcpInbox inbox(0, 3);
  Notes notes;
  inbox.attach(1, &notes);
  std::vector<uint8_t> here(6, '-');
  Request recv;
  recv.data = Data(here);
  notes.recv = &recv;
  TcpPart first = part_of(Kind::message, 6), second = part_of(Kind::message, 6, 1);
  second.offset = 4;
  CHECK(inbox.take(bytes_of_part(first, "abcd"), 1) == "");
  CHECK(here == std::vector<uint8_t>{'a', 'b', 'c', 'd', '-', '-'});
  inbox.forget(recv);
  std::fill(here.begin(), here.end(), uint8_t{'-'});
  CHECK(inbox.take(bytes_of_part(second, "ef"), 1) == "");
  REQUIRE(notes.notes.size() == 1);
  CHECK(notes.notes[0].recv == nullptr);
  CHECK(notes.notes[0].bytes ==
        "abcd"
        "ef");
  CHECK(here == std::vector<uint8_t>(6, '-'));
}

// --- the fuzzer ---

namespace {

// A message with its payload, as a rank sends it, of any kind.
std::string any_message(std::mt19937_64& random) {
  TcpPart part{.from = static_cast<int32_t>(1 + random() % 2), .to = 0};
  part.frame = {.kind = static_cast<Kind>(random() % 7), .world = 1};
  std::string bytes;
  if (part.frame.kind == Kind::control) {
    part.frame.tag = static_cast<int64_t>(random() % tcp_limits::control_kinds);
    WaitReport report;
    report.state = RankWait::State::waits;
    report.strands.resize(2);
    report.strands[0].requests = {{Request::Kind::recv, 0, 2, 7},
                                  {Request::Kind::native, 5, 0, -1}};
    report.strands[1].wait.strand = 0;
    report.pending = {{Request::Kind::send, 0, 1, 3}};
    report.natives = {{5, 0}};
    report.members = {{5, {0, 1, 2}}};
    if (part.frame.tag == 0) bytes = pack(CommVerdict{CommVerdict::Kind::deadlock, {1, 2}, "why"});
    if (part.frame.tag == 1) bytes = pack(report);
    if (part.frame.tag >= 2) bytes = std::string(8 + random() % 60, static_cast<char>(random()));
  } else if (part.frame.kind == Kind::message || part.frame.kind == Kind::text ||
             part.frame.kind == Kind::large) {
    part.frame.tag = static_cast<int64_t>(random() % 3) - 1;
    bytes = std::string(4 * (random() % 4), 'x');
    part.frame.dtype = DType::f32;
    part.frame.count = std::ssize(bytes) / 4;
  }
  part.frame.bytes = std::ssize(bytes);
  return bytes_of_part(part, bytes);
}

void mutate(std::string& message, std::mt19937_64& random) {
  constexpr std::array<int64_t, 8> wild = {
      -1,  0,      1, int64_t{1} << 40, int64_t{1} << 62, std::numeric_limits<int64_t>::min(),
      255, 1 << 20};
  for (auto times = 1 + random() % 3; times > 0; --times) {
    const size_t at = random() % message.size();
    switch (random() % 5) {
      case 0: message[at] = static_cast<char>(random()); break;
      case 1: message[at] = static_cast<char>(message[at] ^ (1 << random() % 8)); break;
      case 2: message.resize(std::max<size_t>(1, at)); break;
      case 3: message.insert(at, std::string(1 + random() % 9, static_cast<char>(random()))); break;
      default:
        const int64_t value = wild[random() % wild.size()];
        const size_t place = at - at % 8, length = std::min(sizeof value, message.size() - place);
        std::memcpy(message.data() + place, &value, length);
    }
  }
}

}  // namespace

TEST_CASE("a hundred thousand broken messages: refused or harmless, with a receive of each kind") {
  const StderrText quiet;  // messages that name no rank are reported
  std::mt19937_64 random(17);
  int refused = 0, taken = 0;
  const Call call{.operation = "recv", .where = Where::current()};
  for (int input = 0; input < 100'000; ++input) {
    TcpPeers alone{0, std::vector<ProcessAddress>(3), {}, std::make_unique<OwnWords>(0), nullptr,
                   {}};
    const auto mesh = std::make_shared<TcpMesh>(std::move(alone));
    TcpTransport transport(mesh, 3, 1, {.patience = 0});
    std::vector<float> room(2);
    Request recv;
    recv.kind = Request::Kind::recv;
    recv.data = Data(room);
    recv.peer = 1;
    recv.call = &call;
    transport.post(recv);
    for (int64_t number = 0; number < 2; ++number) {
      std::string message = any_message(random);
      if (number == 1) {
        mutate(message, random);
        const int64_t wanted = message.size() > 24 && message[8] == 1 ? 1 : 0;
        if (message.size() > 24) std::memcpy(message.data() + 16, &wanted, sizeof wanted);
      } else {
        const int32_t from = 1;
        std::memcpy(message.data() + 8, &from, sizeof from);
      }
      const bool is_two = message.size() > 8 && message[8] == 2;  // of which rank it says to be
      mesh->take(message, is_two ? 2 : 1, "127.0.0.1");
    }
    ++(mesh->lost() >= 0 ? refused : taken);
  }
  CAPTURE(refused);
  CHECK(refused > 30'000);
  CHECK(taken > 5'000);
}
