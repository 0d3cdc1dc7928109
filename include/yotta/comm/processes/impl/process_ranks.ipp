// The bodies of comm/processes/process_ranks.hpp.
#pragma once

#include "yotta/comm/processes/process_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "yotta/comm/engine/engine.hpp"
#include "yotta/comm/engine/message.hpp"
#include "yotta/comm/processes/packing.hpp"

namespace yotta {

YOTTA_INLINE RankVerdict verdict_of(const std::exception_ptr& error) {
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
    return {RankEnd::other, "it threw something that is not a std::exception"};
  }
}

YOTTA_INLINE std::exception_ptr exception_of(const RankVerdict& verdict, Where where) {
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

YOTTA_INLINE std::string pack(const RankReport& report) {
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

YOTTA_INLINE RankReport unpack(std::string_view bytes, int rank, int size, Where where) {
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

// What a process is about to do; all must be about to do the same.
struct ProcessRanks::Step {
  int n;             // ranks of a run; 0: the program's end
  std::string text;  // where it runs them; the error it ends with, or nothing

  std::string description() const {
    if (n > 0) return fmt::format("runs {} ranks at {}", n, text);
    return text.empty() ? "has ended" : "has ended: " + text;
  }
};

YOTTA_INLINE ProcessRanks::ProcessRanks(ProcessRanksOptions options, const char* launcher,
                                        const char* count_option)
    : options_(std::move(options)), launcher_(launcher), count_option_(count_option) {}

YOTTA_INLINE void ProcessRanks::join(int rank, std::vector<ProcessAddress> addresses) {
  rank_ = rank;
  addresses_ = std::move(addresses);
  for (int other = 0; other < size(); ++other) {
    const bool here = address(other).host == address(rank).host;
    ranks_on_host_ += here ? 1 : 0;
    rank_on_host_ += here && other < rank ? 1 : 0;
  }
  cores_ = detail::default_threads(ranks_on_host_);
  rank_host() = this;
}
YOTTA_INLINE void ProcessRanks::leave() { rank_host() = nullptr; }
YOTTA_INLINE void ProcessRanks::fail_lost(int rank) {
  fail_lost(describe_lost_process(rank, address(rank)));
}
YOTTA_INLINE void ProcessRanks::fail_lost(const std::string& text) {
  lost_ = true;
  lost_text_ = text;
  throw PeerFailed(Where::current(), text);
}

YOTTA_INLINE void ProcessRanks::check_overdue() {
  if (!timed_out_ || std::chrono::steady_clock::now() < overdue_) return;
  lost_ = true;
  std::rethrow_exception(timed_out_);
}

YOTTA_INLINE std::vector<std::string> ProcessRanks::end(const std::string& error) {
  if (std::exchange(ended_, true) || timed_out_) return {};
  try {
    return agree(Step{0, error});
  } catch (const std::exception&) {
    return {};
  }
}

// The lowest rank that failed by itself, not because another did; -1: none.
inline int first_cause(const std::vector<RankReport>& reports) {
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const RankEnd end = verdict_of(reports[rank].error).end;
    if (end != RankEnd::well && end != RankEnd::peer_failed) return static_cast<int>(rank);
  }
  return -1;
}

YOTTA_INLINE std::vector<RankReport> ProcessRanks::run(int n, const RankBody& body,
                                                       const RunOptions& options, Where where) {
  agree(Step{n, at(where)});
  if (n > size())
    fail(where,
         "{} ranks are wanted, but {} has started {} processes; start it with {}{}, or ask for "
         "fewer ranks",
         n, launcher_, size(), count_option_, n);
  RankReport mine;
  const std::shared_ptr<Transport> transport = make_transport(n, options);
  if (transport != nullptr) run_rank(transport, body, options, mine, where);
  if (verdict_of(mine.error).end == RankEnd::timeout) limit_wait(mine.error, options);
  const std::vector<RankReport> reports = exchange(std::move(mine), n, where);
  timed_out_ = nullptr;
  detail::rethrow_root_cause(reports, first_cause(reports), where);
  return reports;
}

// Runs this process's rank.
YOTTA_INLINE void ProcessRanks::run_rank(std::shared_ptr<Transport> transport, const RankBody& body,
                                         const RunOptions& options, RankReport& report,
                                         Where where) {
  if (options_.wrap) transport = options_.wrap(transport);
  report.context = std::make_shared<RankContext>();
  report.context->rank = transport->rank();
  report.context->size = transport->size();
  report.context->threads = options.threads > 0 ? options.threads : cores_;
  const ContextScope scope(*report.context);
  const detail::InsideRank inside;
  auto group = std::make_shared<Group>();
  group->engine = std::make_shared<Engine>(transport, options);
  group->rank = transport->rank();
  for (int rank = 0; rank < transport->size(); ++rank) group->members.push_back(rank);
  report.engine = group->engine;
  Communicator world(group);
  const auto guarded = [&](auto&& code) {
    try {
      code();
    } catch (...) {
      if (!report.error) report.error = std::current_exception();
      transport->fail(verdict_of(report.error).text);
    }
  };
  guarded([&] {
    if (options_.begin) options_.begin(*report.context, rank_on_host_);
    body(world);
  });
  guarded([&] {
    group->engine->end(where);
    if (!report.error) transport->end(where);
  });
}

// This rank has timed out: it waits only so much longer for the others to return.
YOTTA_INLINE void ProcessRanks::limit_wait(const std::exception_ptr& error,
                                           const RunOptions& options) {
  fmt::print(stderr, "{}\nprocess {} waits {} s more for the others to return\n",
             verdict_of(error).text, rank_, options.timeout);
  timed_out_ = error;
  overdue_ = std::chrono::steady_clock::now() +
             std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                 std::chrono::duration<double>(std::min(options.timeout, 1e9)));
}

// Exchanges the reports, by rank. Until this has ended the other ranks may still receive what was
// sent.
YOTTA_INLINE std::vector<RankReport> ProcessRanks::exchange(RankReport mine, int n, Where where) {
  const std::vector<std::string> all = all_gather(rank_ < n ? pack(mine) : "");
  std::vector<RankReport> reports;
  for (int rank = 0; rank < n; ++rank)
    reports.push_back(rank == rank_ ? std::move(mine)
                                    : unpack(all[static_cast<size_t>(rank)], rank, n, where));
  return reports;
}

// Waits until all processes are about to take a step, and compares the steps. Returns their texts.
YOTTA_INLINE std::vector<std::string> ProcessRanks::agree(const Step& mine) {
  MessageWriter step;
  step.put(mine.n);
  step.put(mine.text);
  std::vector<Step> steps;
  std::vector<std::string> texts;
  for (const std::string& other : all_gather(step.bytes())) {
    MessageReader reader(other);
    const int n = reader.take<int>();
    steps.push_back({n, reader.take_text()});
    texts.push_back(steps.back().text);
    ended_ = ended_ || n == 0;
  }
  for (size_t rank = 0; rank < steps.size(); ++rank)
    if (steps[rank].n != mine.n)
      fail(Where::current(), "the processes have diverged: process {} {}, process {} {}", rank_,
           mine.description(), rank, steps[rank].description());
  return texts;
}

}  // namespace yotta
