// What is left of a rank, as bytes: so that a rank that ended in another process has a report here.
//
//     process 2: ledger, error  ──►  pack  ──►  bytes  ──►  unpack  ──►  process 0: reports[2]
//
// An error keeps its kind (failures.hpp) and its text; of other exceptions the text stays. Both sides are
// the same program on the same kind of machine, so numbers travel as they lie in memory.
// Errors: bytes that end too early, which no pack has made.
#pragma once

#include "yotta/comm/processes/packing.hpp"
#include "yotta/comm/run_ranks.hpp"

namespace yotta {

enum class RankEnd : uint8_t { well, deadlock, mismatch, timeout, peer_failed, comm_error, other };

// How a rank has ended, and what its exception says.
struct RankVerdict {
  RankEnd end = RankEnd::well;
  std::string text;
};

// How a rank has ended, from what it threw (null: nothing).
inline RankVerdict verdict_of(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const Deadlock& e) {
    return {RankEnd::deadlock, e.what()};
  } catch (const Mismatch& e) {
    return {RankEnd::mismatch, e.what()};
  } catch (const Timeout& e) {
    return {RankEnd::timeout, e.what()};
  } catch (const PeerFailed& e) {
    return {RankEnd::peer_failed, e.what()};
  } catch (const CommError& e) {
    return {RankEnd::comm_error, e.what()};
  } catch (const std::exception& e) {
    return {RankEnd::other, e.what()};
  } catch (...) {
    return {RankEnd::other, "it threw something that is no std::exception"};
  }
}

// The exception again, in another process; null if the rank ended well.
inline std::exception_ptr exception_of(const RankVerdict& verdict, Where where) {
  const auto made = [&](auto kind) {
    using Kind = typename decltype(kind)::type;
    return std::make_exception_ptr(Kind(Error::Verbatim{}, where, verdict.text));
  };
  switch (verdict.end) {
    case RankEnd::well: return nullptr;
    case RankEnd::deadlock: return made(std::type_identity<Deadlock>());
    case RankEnd::mismatch: return made(std::type_identity<Mismatch>());
    case RankEnd::timeout: return made(std::type_identity<Timeout>());
    case RankEnd::peer_failed: return made(std::type_identity<PeerFailed>());
    case RankEnd::comm_error: return made(std::type_identity<CommError>());
    case RankEnd::other: break;
  }
  return made(std::type_identity<Error>());
}

// A report as bytes, for another process.
inline std::string pack(const RankReport& report) {
  MessageWriter message;
  const RankVerdict verdict = verdict_of(report.error);
  message.put(verdict.end);
  message.put(verdict.text);
  const Ledger& ledger = report.ledger();
  message.put(ledger.ops().size());
  for (const auto& [name, count] : ledger.ops()) {
    message.put(name);
    message.put(count);
  }
  message.put(ledger.traffic().size());
  for (const auto& [label, traffic] : ledger.traffic()) {
    message.put(label);
    message.put(traffic);
  }
  for (int kind = 0; kind < memory_kinds; ++kind) {
    message.put(ledger.memory()->live(static_cast<MemoryKind>(kind)));
    message.put(ledger.memory()->peak(static_cast<MemoryKind>(kind)));
  }
  message.put(ledger.memory()->peak());
  return message.bytes();
}

// The report of `rank` of `size` ranks.
inline RankReport unpack(std::string_view bytes, int rank, int size, Where where) {
  MessageReader message(bytes);
  RankReport report;
  RankVerdict verdict;
  verdict.end = message.take<RankEnd>();
  verdict.text = message.take_text();
  report.error = exception_of(verdict, where);
  report.context = std::make_shared<RankContext>();
  report.context->rank = rank;
  report.context->size = size;
  Ledger& ledger = report.context->ledger;
  for (auto left = message.take<size_t>(); left > 0; --left) {
    const std::string name = message.take_text();
    ledger.charged(name, message.take<OpCount>());
  }
  for (auto left = message.take<size_t>(); left > 0; --left) {
    const std::string label = message.take_text();
    const auto traffic = message.take<Traffic>();
    ledger.sent(label, traffic.messages_sent, traffic.bytes_sent);
    ledger.received(label, traffic.messages_received, traffic.bytes_received);
  }
  std::array<int64_t, memory_kinds> live{}, peaks{};
  for (size_t kind = 0; kind < memory_kinds; ++kind) {
    live[kind] = message.take<int64_t>();
    peaks[kind] = message.take<int64_t>();
  }
  ledger.memory()->assign(live, peaks, message.take<int64_t>());
  return report;
}

}  // namespace yotta
