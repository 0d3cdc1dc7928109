// Rendezvous: how processes that know nothing of each other but one address become ranks with a connection to each.
//
//     RANK=2 WORLD_SIZE=4 MASTER_ADDR=node1 MASTER_PORT=29500      every process has these (torchrun's names)
//
//     1  rank 0 listens at node1:29500; the others connect to it, again and again until it is there:
//            "rank 2 of 4, process 4711 on node7, I listen at port 40123 myself"
//     2  when all have come rank 0 tells everybody where everybody listens
//     3  rank 3 connects to 1 and 2, rank 2 to 1: one connection a pair; those to rank 0 are there already
//
// Instead of an address the processes may share a file, which says where rank 0 is (tcp_place.hpp).
// Nothing hangs: after `seconds` rank 0 tells all who has not come, whoever else, a health check say, has connected to
// its port and is silent; then all have as long again for step 3. Two processes with one rank, and different
// WORLD_SIZEs, are told to all at once.
// Who can reach the port can join: this is for networks that one trusts, as MPI's and NCCL's own bootstraps are.
// Cost: p - 1 connections to rank 0, p (p - 1) / 2 in all; a message each way on each.
// References: PyTorch, torch.distributed, "TCP initialization", "Shared file-system initialization".
#pragma once

#include <sys/random.h>

#include <thread>

#include "yotta/comm/processes/packing.hpp"
#include "yotta/comm/processes/process_watch.hpp"
#include "yotta/comm/tcp/tcp_place.hpp"

namespace yotta {

// This process, and a connection to each other one.
struct TcpJob {
  int rank = 0;
  std::vector<Socket> sockets;            // by rank; its own is not open
  std::vector<ProcessAddress> processes;  // by rank
};

class TcpRendezvous {
 public:
  explicit TcpRendezvous(TcpPlace place, Where where = Where::current())
      : place_(std::move(place)), where_(where), deadline_(place_.seconds) {
    if (place_.rank < 0 || place_.rank >= place_.size)
      fail(where, "RANK is {}, but WORLD_SIZE is {}: ranks are 0 to {}", place_.rank, place_.size,
           place_.size - 1);
    seats_.resize(static_cast<size_t>(place_.size));
    job_.rank = place_.rank;
    job_.sockets.resize(seats_.size());
  }

  // All processes call it. Errors: who has not come, or should not have.
  TcpJob meet() {
    if (place_.rank == 0)
      gather();
    else
      join();
    for (const Seat& seat : seats_) job_.processes.push_back(seat.process);
    return std::move(job_);
  }

 private:
  // What a process says of itself, and rank 0 of all.
  struct Seat {
    int rank = -1, size = 0;
    uint64_t job = 0;  // rank 0 makes it: no process of another job is taken for one of this
    ProcessAddress process;
    std::array<char, 64> host = {};  // where it listens, as rank 0 sees it; empty: on rank 0's host
    int port = 0;

    std::string words() const {
      return fmt::format("process {} on {}", process.pid, process.host.data());
    }
  };
  Socket& socket(int rank) { return job_.sockets[static_cast<size_t>(rank)]; }
  Seat& seat(int rank) { return seats_[static_cast<size_t>(rank)]; }
  Seat own_seat(int port) const {
    return {.rank = place_.rank, .size = place_.size, .process = own_address(), .port = port};
  }
  static std::string pack_seat(const Seat& seat) {
    MessageWriter writer;
    writer.put(seat);
    return writer.bytes();
  }

  // Somebody who has connected, and what he has said so far.
  struct Guest {
    Socket socket;
    std::string said = {};
  };
  // Reads what has come. False: he has closed, or does not speak as a rank of ours does (write_text of a seat).
  static bool hear(Guest& guest) {
    const TextHead ours{.length = sizeof(Seat)};
    std::array<char, sizeof ours + sizeof(Seat)> bytes;
    const ssize_t got = recv(guest.socket.fd(), bytes.data(), bytes.size() - guest.said.size(), 0);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    guest.said.append(bytes.data(), static_cast<size_t>(got));
    return std::memcmp(guest.said.data(), &ours, std::min(guest.said.size(), sizeof ours)) == 0;
  }
  // The next who has said all that a rank says, and his connection; empty: nobody by the deadline. All are heard at the
  // same time.
  std::optional<std::pair<Seat, Socket>> welcome(const Socket& listener) {
    while (deadline_.left() > 0) {
      std::vector<pollfd> polls = {{listener.fd(), POLLIN, 0}};
      for (const Guest& each : guests_) polls.push_back({each.socket.fd(), POLLIN, 0});
      poll(polls.data(), polls.size(),
           static_cast<int>(std::min(deadline_.left(), 1.0) * 1000) + 1);
      for (size_t i = guests_.size(); i-- > 0;) {
        if (polls[i + 1].revents == 0) continue;
        Guest& guest = guests_[i];
        const bool stays = hear(guest);
        if (stays && guest.said.size() < sizeof(TextHead) + sizeof(Seat)) continue;
        Guest gone = std::move(guest);
        guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(i));
        if (!stays) continue;
        const std::string_view seat = std::string_view(gone.said).substr(sizeof(TextHead));
        return std::pair{MessageReader(seat).take<Seat>(), std::move(gone.socket)};
      }
      if (polls[0].revents == 0) continue;
      if (Socket guest = accept_from(listener, Deadline(0)); guest.is_open())
        guests_.push_back({std::move(guest)});
    }
    return {};
  }

  // --- rank 0 ---
  void gather() {
    const Socket listener = listen();
    seat(0) = own_seat(own_end(listener).port);
    if (getrandom(&seat(0).job, sizeof(uint64_t), 0) < 0) seat(0).job = 1;
    if (!place_.file.empty()) write_place(place_.file, seat(0).port, where_);
    for (int come = 1; come < place_.size; ++come) {
      auto guest = welcome(listener);
      if (!guest) refuse(describe_missing());
      take(guest->first, std::move(guest->second));
    }
    MessageWriter all;
    all.put(std::string());
    for (const Seat& each : seats_) all.put(each);
    tell_all(all.bytes());
    if (!place_.file.empty()) unlink(place_.file.c_str());
  }
  Socket listen() const {
    try {
      return listen_at(place_.file.empty() ? place_.first.port : 0, where_);
    } catch (const CommError& error) {
      throw CommError(Error::Verbatim{}, where_,
                      std::string(error.what()) +
                          ". Does another job use it, or another process with RANK=0? Choose "
                          "another MASTER_PORT");
    }
  }
  void take(const Seat& theirs, Socket guest) {
    const bool fits = theirs.size == place_.size && theirs.rank > 0 && theirs.rank < place_.size;
    const int problem_with = fits ? theirs.rank : 0;
    const std::string before = seat(problem_with).words();
    const bool taken = fits && socket(theirs.rank).is_open();
    const std::string other_end_host = other_end(guest).host;
    if (fits && !taken) {
      seat(theirs.rank) = theirs;
      seat(theirs.rank).job = seat(0).job;
      if (other_end_host != own_end(guest).host)
        other_end_host.copy(seat(theirs.rank).host.data(), seat(0).host.size() - 1);
      socket(theirs.rank) = std::move(guest);
      return;
    }
    late_ = std::move(guest);  // it is told too
    if (taken || theirs.rank == 0)
      refuse(
          fmt::format("two processes say that they are rank {}: {}, and {}; give each a RANK of "
                      "its own, 0 to {}",
                      theirs.rank, before, theirs.words(), place_.size - 1));
    refuse(fmt::format("WORLD_SIZE is {} for rank 0 ({}), but {} for rank {} ({})", place_.size,
                       before, theirs.size, theirs.rank, theirs.words()));
  }
  std::string describe_missing() {
    std::string missing;
    for (int rank = 1; rank < place_.size; ++rank)
      if (!socket(rank).is_open())
        missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
    return fmt::format(
        "of {} ranks these have not come within {:g} s: {}. Have they been started, with the same "
        "{} as rank 0 ({})?",
        place_.size, place_.seconds, missing,
        place_.file.empty() ? "MASTER_ADDR and MASTER_PORT" : "YOTTA_RENDEZVOUS_FILE",
        seat(0).words());
  }
  // Everybody who has come hears why it ends here.
  [[noreturn]] void refuse(const std::string& why) {
    MessageWriter text;
    text.put(why);
    tell_all(text.bytes());
    if (late_.is_open()) write_text(late_, text.bytes(), Deadline(1));
    if (!place_.file.empty()) unlink(place_.file.c_str());
    throw CommError(where_, why);
  }
  void tell_all(const std::string& text) {
    for (const Socket& each : job_.sockets)
      if (each.is_open()) write_text(each, text, Deadline(5));
  }

  // --- the others ---
  void join() {
    const Socket listener = listen_at(0, where_);
    TcpAddress first;
    std::optional<std::string> answer;
    for (;;) {
      first = reach_first();
      const Deadline answers(place_.seconds + 10);  // rank 0 may have started to wait after us
      write_text(socket(0), pack_seat(own_seat(own_end(listener).port)), answers);
      answer = read_text(socket(0), answers);
      if (answer || place_.file.empty() || deadline_.left() < 0.2) break;
      // The file may be an earlier job's, and the port in it another program's by now.
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    if (!answer)
      fail_as<CommError>(where_,
                         "rank {} has reached {}, but what is there is no rank 0, or has ended: is "
                         "the port another program's?",
                         place_.rank, first.text());
    MessageReader reader(*answer);
    if (const std::string refusal = reader.take_text(); !refusal.empty())
      throw CommError(where_, refusal);
    for (Seat& each : seats_) each = reader.take<Seat>();
    deadline_ = Deadline(place_.seconds);  // for what follows: the last may have come just now
    for (int other = 1; other < place_.rank; ++other) call(other, first);
    for (int missing = place_.size - 1 - place_.rank; missing > 0;)
      missing -= answer_call(listener);
  }
  // Connects to rank 0 as soon as it listens. Returns its address.
  TcpAddress reach_first() {
    std::string why = "the file does not say where rank 0 is";
    for (int attempt = 0; deadline_.left() > 0; ++attempt) {
      const auto addresses =
          place_.file.empty() ? std::vector{place_.first} : read_place(place_.file);
      for (const TcpAddress& address : addresses) {
        socket(0) = connect_to(address, Deadline(std::min(5.0, deadline_.left())), why);
        if (socket(0).is_open()) return address;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(std::min(10 << attempt / 4, 500)));
    }
    fail_as<CommError>(
        where_,
        "rank {} could not reach rank 0 at {} within {:g} s: {}. Is rank 0 running, and {}?",
        place_.rank, place_.file.empty() ? place_.first.text() : place_.file, place_.seconds, why,
        place_.file.empty() ? "are MASTER_ADDR and MASTER_PORT its host and port"
                            : "is this one file for all hosts");
  }
  void call(int other, const TcpAddress& first) {
    const Seat& theirs = seat(other);
    const TcpAddress address{theirs.host[0] != '\0' ? theirs.host.data() : first.host, theirs.port};
    std::string why;
    socket(other) = connect_to(address, deadline_, why);
    if (!socket(other).is_open())
      fail_as<CommError>(where_, "rank {} cannot reach rank {} ({}) at {}: {}", place_.rank, other,
                         theirs.words(), address.text(), why);
    write_text(socket(other), pack_seat(seat(place_.rank)), deadline_);
  }
  // Returns 1 for a rank of this job, 0 for anybody else.
  int answer_call(const Socket& listener) {
    auto guest = welcome(listener);
    if (!guest)
      fail_as<CommError>(where_, "rank {} has waited {:g} s for the connections of higher ranks",
                         place_.rank, place_.seconds);
    if (guest->first.job != seat(0).job) return 0;
    socket(guest->first.rank) = std::move(guest->second);
    return 1;
  }

  TcpPlace place_;
  Where where_;
  Deadline deadline_;
  std::vector<Seat> seats_;  // by rank
  TcpJob job_;
  std::vector<Guest> guests_;  // who have not said yet who they are
  Socket late_;                // of a process that does not belong here
};

}  // namespace yotta
