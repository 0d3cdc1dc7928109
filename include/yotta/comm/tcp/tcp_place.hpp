// Where a process stands among those of its job, and where it finds rank 0: from its environment, or from a file.
//
//     RANK=2 WORLD_SIZE=4 MASTER_ADDR=node1 MASTER_PORT=29500         torchrun's names; rank 0 runs on node1
//     RANK=2 WORLD_SIZE=4 YOTTA_RENDEZVOUS_FILE=/shared/job-17        no address is known: rank 0 writes its own there
//     srun, mpirun: their own variables in place of RANK and WORLD_SIZE
//     torchrun itself (it sets TORCHELASTIC_USE_AGENT_STORE) listens at MASTER_PORT: then rank 0 does at the next one
//
// The file: rank 0's port in the first line, then an address a line. It is made by rank 0, and removed when all have come.
// YOTTA_RENDEZVOUS_SECONDS says how long all wait for each other (60).
// References: PyTorch, torch.distributed, "Environment variable initialization", "Shared file-system initialization".
#pragma once

#include <ifaddrs.h>

#include <fstream>

#include "yotta/comm/processes/processes.hpp"
#include "yotta/comm/tcp/tcp_socket.hpp"

namespace yotta {

struct TcpPlace {
  int rank = 0, size = 1;
  TcpAddress first = {};  // where rank 0 listens ...
  std::string file = {};  // ... or the file in which it says so
  double seconds = 60;    // how long the others are waited for
};

// Of this process; empty if nobody has said where rank 0 is, or what its rank is. Errors: a variable that is no number.
inline std::optional<TcpPlace> find_tcp_place(const Environment& get = own_environment,
                                              Where where = Where::current()) {
  const auto text = [&](const char* name) {
    const char* const value = get(name);
    return std::string(value == nullptr ? "" : value);
  };
  const auto number = [&](const char* name, int otherwise, int least, int most) {
    const std::string digits = text(name);
    if (digits.empty()) return otherwise;
    int value = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || *end != '\0' || value < least || value > most)
      fail(where, "{} is \"{}\"; it should be a number from {} to {}", name, digits, least, most);
    return value;
  };
  TcpPlace place;
  place.file = text("YOTTA_RENDEZVOUS_FILE");
  place.first.host = text("MASTER_ADDR");
  if (place.file.empty() && place.first.host.empty()) return {};
  if (const std::optional<ProcessPlace> other = find_place(get)) {
    place.rank = other->rank;
    place.size = other->size;
  } else if (get("RANK") == nullptr || get("WORLD_SIZE") == nullptr) {
    return {};
  }
  constexpr int most_ranks = 1 << 20;
  place.rank = number("RANK", place.rank, 0, most_ranks);
  place.size = number("WORLD_SIZE", place.size, 1, most_ranks);
  place.first.port = number("MASTER_PORT", 29500, 1, 65534);
  if (text("TORCHELASTIC_USE_AGENT_STORE") == "True") ++place.first.port;
  place.seconds = number("YOTTA_RENDEZVOUS_SECONDS", 60, 1, 1'000'000);
  return place;
}

// Rank 0 can be reached at this port, at the addresses that other hosts can reach, or at this host's own. (IPv4: where
// there is only IPv6, say MASTER_ADDR.)
inline void write_place(const std::string& name, int port, Where where = Where::current()) {
  const std::string draft = name + ".new";
  std::ofstream file(draft);
  file << port << '\n';
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) == 0) {
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
      const std::string host = numbers_of(each->ifa_addr, sizeof(sockaddr_in)).host;
      if (!host.starts_with("127.")) file << host << '\n';
    }
    freeifaddrs(all);
  }
  file << "127.0.0.1\n";
  file.close();
  if (file.fail() || rename(draft.c_str(), name.c_str()) != 0)  // nobody reads half of it
    fail_as<CommError>(where, "cannot write {}: {}", name, std::strerror(errno));
}
// What it says; empty if it is not there yet.
inline std::vector<TcpAddress> read_place(const std::string& name) {
  std::ifstream file(name);
  std::vector<TcpAddress> addresses;
  int port = 0;
  file >> port;
  for (std::string host; file >> host;) addresses.push_back({host, port});
  return addresses;
}

}  // namespace yotta
