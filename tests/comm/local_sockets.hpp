// Processes of a job that are threads, with pairs of sockets between them.
//
//     on_meshes(3, [](std::shared_ptr<SocketMesh> mesh) { ... });     in three threads
//     on_sockets(3, [](Communicator& world) { ... });                  returns what each rank has
//                                                                  thrown
#pragma once

#include <functional>
#include <thread>

#include "yotta/comm/communicator.hpp"
#include "yotta/comm/engine/engine.hpp"
#include "yotta/comm/engine/message.hpp"
#include "yotta/comm/sockets/socket_transport.hpp"

namespace yotta_test {

// Notes what comes; its receive is the one it is given.
class SocketNotes : public yotta::SocketReceiver {
 public:
  struct Note {
    int from;
    int64_t tag;
    yotta::Request* recv;
    std::string bytes;
  };
  std::vector<Note> notes;
  std::vector<yotta::Request*> all_sent;
  yotta::Request* recv = nullptr;

 private:
  yotta::Request* find_recv(int /*from*/, const yotta::SocketFrame& /*frame*/) override {
    return recv;
  }
  void arrived(int from, const yotta::SocketFrame& frame, yotta::Request* there,
               std::string bytes) override {
    notes.push_back({from, frame.tag, there, std::move(bytes)});
  }
  void sent(yotta::Request& request) override { all_sent.push_back(&request); }
};

inline void on_threads_of(int size, const std::function<void(int rank)>& code) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&code, rank] { code(rank); });
  for (std::thread& thread : threads) thread.join();
}

// The processes of a mesh of this size, each with its ends of the sockets.
inline std::vector<yotta::SocketPeers> socket_peers(int size) {
  std::vector<yotta::SocketPeers> all(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    yotta::SocketPeers& it = all[static_cast<size_t>(rank)];
    it.rank = rank;
    it.processes.assign(static_cast<size_t>(size), yotta::own_address());
    it.sockets.resize(static_cast<size_t>(size));
  }
  for (size_t first = 0; first < all.size(); ++first)
    for (size_t second = first + 1; second < all.size(); ++second)
      std::tie(all[first].sockets[second], all[second].sockets[first]) =
          yotta::joined_sockets(SOCK_STREAM);
  return all;
}

template <class Code>
void on_meshes(int size, Code code) {
  std::vector<yotta::SocketPeers> peers = socket_peers(size);
  on_threads_of(size, [&](int rank) {
    code(std::make_shared<yotta::SocketMesh>(std::move(peers[static_cast<size_t>(rank)])));
  });
}

// What each rank ended with, by rank; empty: well.
template <class Body>
std::vector<std::string> on_sockets(int size, Body body, const yotta::SocketOptions& options = {},
                                    const yotta::EngineOptions& engine = {}) {
  std::vector<std::string> errors(static_cast<size_t>(size));
  on_meshes(size, [&](const std::shared_ptr<yotta::SocketMesh>& mesh) {
    auto transport = std::make_shared<yotta::SocketTransport>(mesh, size, 1, options);
    const int rank = transport->rank();
    yotta::RankContext self;
    self.rank = rank;
    self.size = size;
    const yotta::ContextScope scope(self);
    auto group = std::make_shared<yotta::Group>();
    group->engine = std::make_shared<yotta::Engine>(transport, engine);
    group->rank = rank;
    for (int other = 0; other < size; ++other) group->members.push_back(other);
    const auto guarded = [&](auto&& code) {
      std::string& error = errors[static_cast<size_t>(rank)];
      try {
        code();
      } catch (const std::exception& thrown) {
        if (error.empty()) error = thrown.what();
        transport->fail(error);
      }
    };
    guarded([&] {
      yotta::Communicator world(group);
      body(world);
    });
    guarded([&] {
      group->engine->end(yotta::Where::current());
      if (errors[static_cast<size_t>(rank)].empty()) transport->end(yotta::Where::current());
    });
    mesh->say_goodbye();
  });
  return errors;
}

}  // namespace yotta_test
