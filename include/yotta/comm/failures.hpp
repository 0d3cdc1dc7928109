// What communication can throw. Each says what, where, expected against actual, and what to try.
//
//     Deadlock     this rank can never go on: nobody is left who could send what it waits for
//     Mismatch     two ranks called different things: operation, count, type, root, order
//     Timeout      the other side has not come within RunOptions::timeout
//     PeerFailed   another rank has failed: its message is in this one
//     RankFailed   what run_ranks throws when a rank's own code has thrown: the cause with the rank
#pragma once

#include <exception>

#include "yotta/core/error.hpp"

namespace yotta {

class CommError : public Error {
  using Error::Error;
};
class Deadlock : public CommError {
  using CommError::CommError;
};
class Mismatch : public CommError {
  using CommError::CommError;
};
class Timeout : public CommError {
  using CommError::CommError;
};
class PeerFailed : public CommError {
  using CommError::CommError;
};

class RankFailed : public Error {
 public:
  RankFailed(Where where, int rank, const std::string& message, std::exception_ptr cause)
      : Error(where, fmt::format("rank {} failed: {}", rank, message)),
        rank_(rank),
        cause_(std::move(cause)) {}
  int rank() const { return rank_; }
  // The exception as it was thrown.
  std::exception_ptr cause() const { return cause_; }

 private:
  int rank_;
  std::exception_ptr cause_;
};

}  // namespace yotta
