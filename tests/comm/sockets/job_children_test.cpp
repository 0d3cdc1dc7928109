#include "yotta/comm/sockets/job_children.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "yotta/comm/sockets/job_line.hpp"

using namespace yotta;

TEST_CASE("each two ranks of an epoch get a pair of sockets, although some read nothing yet") {
  constexpr int ranks = 4;
  std::vector<std::shared_ptr<WordLine>> starters;
  std::vector<std::unique_ptr<JobLine>> children;
  for (int rank = 0; rank < ranks; ++rank) {
    auto [own, its] = joined_sockets(SOCK_SEQPACKET);
    starters.push_back(std::make_shared<WordLine>(std::move(own)));
    children.push_back(std::make_unique<JobLine>(std::move(its)));
  }
  for (int i = 0; i < 2000; ++i) starters[3]->put("lost 1 0 fills the line");
  SocketPairs pairs(2, starters);
  CHECK_FALSE(pairs.give());
  while (!pairs.give()) children[3]->read();
  std::vector<std::vector<Descriptor>> sockets;
  for (const auto& each : children) {
    each->read();
    CHECK_FALSE(each->take_peers(1, ranks)[0].is_open());  // of another epoch
    sockets.push_back(each->take_peers(2, ranks));
  }
  for (size_t one = 0; one < ranks; ++one)
    for (size_t other = 0; other < ranks; ++other) {
      if (one == other) continue;
      const std::string text = fmt::format("{} to {}", one, other);
      CHECK(write(sockets[one][other].number(), text.data(), text.size()) == std::ssize(text));
      std::string got(16, '\0');
      got.resize(static_cast<size_t>(read(sockets[other][one].number(), got.data(), got.size())));
      CHECK(got == text);
    }
}
