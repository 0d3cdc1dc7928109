// TCP processes that are threads: each has sockets of its own, to all others and to itself.
//
//     on_meshes(3, [](std::shared_ptr<TcpMesh> mesh) { ... });     in three threads
//     on_tcp(3, [](Communicator& world) { ... });                  returns what each rank has
//                                                                  thrown
#pragma once

#include <functional>
#include <thread>

#include "support/longest_wait.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/comm/engine/engine.hpp"
#include "yotta/comm/engine/message.hpp"
#include "yotta/comm/tcp/tcp_rendezvous.hpp"
#include "yotta/comm/tcp/tcp_transport.hpp"

namespace yotta_test {

// Notes what comes; its receive is the one it is given.
class Notes : public yotta::TcpReceiver {
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
  yotta::Request* find_recv(int /*from*/, const yotta::TcpFrame& /*frame*/) override {
    return recv;
  }
  void arrived(int from, const yotta::TcpFrame& frame, yotta::Request* there,
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

template <class Code>
void on_meshes(int size, Code code) {
  const TemporaryFolder folder;
  const std::string file = (folder / "rank0").string();
  on_threads_of(size, [&](int rank) {
    const yotta::TcpEnvironment self{rank, size, {}, file, longest_wait};
    code(std::make_shared<yotta::TcpMesh>(yotta::TcpRendezvous(self).connect(), 0.1));
  });
}

// What each rank ended with, by rank; empty: well.
template <class Body>
std::vector<std::string> on_tcp(int size, Body body, const yotta::TcpOptions& options = {},
                                const yotta::EngineOptions& engine = {}) {
  std::vector<std::string> errors(static_cast<size_t>(size));
  on_meshes(size, [&](const std::shared_ptr<yotta::TcpMesh>& mesh) {
    auto transport = std::make_shared<yotta::TcpTransport>(mesh, size, 1, options);
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
