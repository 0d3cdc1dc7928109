// MpiMail: short letters between the ranks of a world, beside their messages: "I have failed", "do you still
// wait?". On a communicator of its own, so that it never meets what the ranks send each other.
//
//     send(to, kind, text)     returns at once; the text is kept until it has been taken
//     take(letter)             one that has come, if any; never waits
//     close()                  until all letters to this rank have been taken; then nothing is left in MPI
//
// Any thread may call it, one at a time.
#pragma once

#ifdef YOTTA_HAVE_MPI

#include <list>

#include "yotta/comm/mpi/mpi_library.hpp"

namespace yotta {

class MpiMail {
 public:
  struct Letter {
    int from = 0, kind = 0;
    std::string text;
  };

  MpiMail(MPI_Comm over, Where where) : comm_(MpiComm::duplicate(over, where)) {
    MPI_Comm_rank(comm_.get(), &rank_);
    MPI_Comm_size(comm_.get(), &size_);
    sent_.assign(static_cast<size_t>(size_), 0);
    taken_ = sent_;
    addressed_ = sent_;
  }
  int rank() const { return rank_; }
  int size() const { return size_; }
  MPI_Comm comm() const { return comm_.get(); }

  void send(int to, int kind, std::string text) {
    if (closing_) return;
    Outgoing& letter = outgoing_.emplace_back();
    letter.text = std::move(text);
    ++sent_[static_cast<size_t>(to)];
    MPI_Isend(letter.text.data(), static_cast<int>(letter.text.size()), MPI_CHAR, to, kind,
              comm_.get(), &letter.request);
  }
  bool take(Letter& letter) {
    forget_sent();
    int arrived = 0, length = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_.get(), &arrived, &status) != MPI_SUCCESS ||
        arrived == 0)
      return false;
    MPI_Get_count(&status, MPI_CHAR, &length);
    letter = {status.MPI_SOURCE, status.MPI_TAG, std::string(static_cast<size_t>(length), ' ')};
    MPI_Recv(letter.text.data(), length, MPI_CHAR, letter.from, letter.kind, comm_.get(),
             MPI_STATUS_IGNORE);
    ++taken_[static_cast<size_t>(letter.from)];
    return true;
  }

  // To be called by all ranks, again and again until true: then all letters have been taken and all ranks
  // know how many there were. From the first call on nothing is sent any more.
  bool close() {
    if (!closing_) {
      closing_ = true;
      MPI_Ialltoall(sent_.data(), 1, MPI_INT, addressed_.data(), 1, MPI_INT, comm_.get(), &counts_);
    }
    Letter late;
    while (take(late)) continue;
    int known = 1;
    if (counts_ != MPI_REQUEST_NULL) MPI_Test(&counts_, &known, MPI_STATUS_IGNORE);
    return known != 0 && outgoing_.empty() && taken_ == addressed_;
  }
  // Leaves what is in flight to MPI for ever.
  void abandon() {
    comm_.abandon();
    kept().splice(kept().end(), outgoing_);
  }

 private:
  struct Outgoing {
    std::string text;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  // MPI may still read them.
  static std::list<Outgoing>& kept() {
    static auto* letters = new std::list<Outgoing>;
    return *letters;
  }
  void forget_sent() {
    for (auto letter = outgoing_.begin(); letter != outgoing_.end();) {
      int done = 0;
      MPI_Test(&letter->request, &done, MPI_STATUS_IGNORE);
      letter = done != 0 ? outgoing_.erase(letter) : std::next(letter);
    }
  }

  MpiComm comm_;
  int rank_ = 0, size_ = 1;
  std::list<Outgoing> outgoing_;
  std::vector<int> sent_, taken_, addressed_;  // by rank: letters to it, from it, of its to us
  MPI_Request counts_ = MPI_REQUEST_NULL;
  bool closing_ = false;
};

}  // namespace yotta

#endif  // YOTTA_HAVE_MPI
