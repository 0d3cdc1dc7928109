// The bodies of comm/sockets/run_processes.hpp.
#pragma once

#include "yotta/comm/sockets/run_processes.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "yotta/comm/sockets/job_children.hpp"
#include "yotta/core/cpu/measure.hpp"

namespace yotta {

namespace detail {
// The processes of a job of one epoch.
class ProcessesRun {
 public:
  ProcessesRun(int n, const std::vector<std::string>& program, SignalSeen seen, double patience,
               Where where)
      : seen_(seen), patience_(patience) {
    expect_child_ranks(n, where);
    const HeldSignals held(seen != nullptr);
    for (int rank = 0; rank < n; ++rank) {
      JobChild child = start_child(program, rank, n);
      if (child.process < 0) {
        for (const Rank& each : ranks_) kill(each.process, SIGKILL);
        for (const Rank& each : ranks_) waitpid(each.process, nullptr, 0);
        fail(where, "cannot start {}: {}", program[0], std::strerror(-child.process));
      }
      lines_.push_back(child.line);
      ranks_.push_back({child.process});
    }
    pairs_ = SocketPairs(1, lines_);
  }

  LaunchResult wait() {
    std::optional<double> failed_at;
    for (size_t left = ranks_.size(); left > 0;) {
      give();
      await_words(lines_, 20);
      pass_on();
      for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        hear(rank);
        if (ranks_[rank].code < 0 && has_ended(rank)) --left;
      }
      if (!failed_at &&
          std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& each) { return each.code > 0; }))
        failed_at = seconds_now();
      if (failed_at && seconds_now() - *failed_at > patience_) kill_the_rest();
    }
    for (const std::string& each : said_) result_.text += each + "\n";
    for (const Rank& each : ranks_)
      if (result_.status == 0) result_.status = each.code;
    return std::move(result_);
  }

 private:
  struct Rank {
    pid_t process = -1;
    int code = -1;  // -1: it runs
    bool has_come = false, ended_well = false, said_stopped = false;
  };

  // The sockets, and then who is who.
  void give() {
    for (const auto& each : lines_) each->flush();
    if (is_given_ || !pairs_.give()) return;
    is_given_ = true;
    JobNews news;
    news.epoch = 1;
    for (size_t rank = 0; rank < ranks_.size(); ++rank)
      news.members.push_back({static_cast<int>(rank), 0, ranks_[rank].process});
    for (const auto& each : lines_) each->put("news " + news_text(news));
  }
  void hear(size_t rank) {
    while (const std::optional<LineWord> word = lines_[rank]->take()) {
      if (word->what == "come") ranks_[rank].has_come = true;
      if (word->what == "well") ranks_[rank].ended_well = true;
      if (word->what == "says" && std::find(said_.begin(), said_.end(), word->rest) == said_.end())
        said_.push_back(word->rest);
    }
  }
  void pass_on() {
    const int signal = seen_ == nullptr ? 0 : seen_();
    if (signal == 0) return;
    for (const Rank& each : ranks_)
      if (each.code < 0) kill(each.process, signal);
    seen_ = nullptr;  // once
  }
  bool has_ended(size_t rank) {
    Rank& it = ranks_[rank];
    int status = 0;
    const pid_t changed = waitpid(it.process, &status, WNOHANG | WUNTRACED);
    if (changed == 0 || (changed < 0 && errno == EINTR)) return false;
    if (changed > 0 && WIFSTOPPED(status)) {
      if (!std::exchange(it.said_stopped, true))
        fmt::print(stderr, "rank {} is stopped: the run goes on when it is continued\n", rank);
      return false;
    }
    if (changed < 0) {  // another part of this program has waited for it
      result_.text +=
          fmt::format("how rank {} has ended is unknown: {}\n", rank, std::strerror(errno));
      it.code = 1;
    } else {
      judge(rank, status);
    }
    return true;
  }
  void judge(size_t rank, int status) {
    Rank& it = ranks_[rank];
    std::string how;
    it.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (WIFSIGNALED(status)) how = fmt::format("was killed: {}", strsignal(WTERMSIG(status)));
    hear(rank);  // its last word
    if (it.code == 0 && it.has_come && !it.ended_well) {
      how = "ended with status 0 in the middle of the job (did it call exit?)";
      it.code = 1;
    }
    if (!how.empty()) result_.text += fmt::format("rank {} {}\n", rank, how);
    if (how.empty() && it.code != 0) how = fmt::format("has ended with status {}", it.code);
    if (how.empty()) return;
    for (const auto& each : lines_) each->put(fmt::format("lost 1 {} {}", rank, how));
  }
  void kill_the_rest() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].code >= 0) continue;
      result_.text += fmt::format("rank {} has not ended within {} s after that. Was it stopped?\n",
                                  rank, patience_);
      kill(ranks_[rank].process, SIGKILL);
    }
    patience_ = std::numeric_limits<double>::infinity();  // once
  }

  SignalSeen seen_;
  double patience_;
  std::vector<Rank> ranks_;
  std::vector<std::shared_ptr<WordLine>> lines_;  // by rank
  SocketPairs pairs_;
  bool is_given_ = false;
  std::vector<std::string> said_;  // each once
  LaunchResult result_;
};
}  // namespace detail

YOTTA_INLINE LaunchResult run_processes(int n, const std::vector<std::string>& program,
                                        SignalSeen seen, double patience, Where where) {
  const ChildSignals signals;
  return detail::ProcessesRun(n, program, seen, patience, where).wait();
}

}  // namespace yotta
