// NCCL ranks without GPUs: threads whose NCCL is mailboxes and whose GPU is the emulator. Bootstrap
// messages, splits and failures travel over thread ranks, as they otherwise do over MPI.
#pragma once

#include "support/longest_wait.hpp"
#include "support/mailbox_nccl.hpp"
#include "yotta/comm/nccl/nccl_transport.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/comm/threads/thread_transport.hpp"
#include "yotta/device/cuda/cuda_accelerator.hpp"

namespace yotta_test {

struct NcclRank {
  Communicator& world;
  NcclTransport& transport;
  MailboxNccl& nccl;
};
struct NcclRun {
  std::shared_ptr<Mailboxes> mail = std::make_shared<Mailboxes>();
  RunOptions options = {};
  double gpu_timeout = longest_wait;
  int64_t room = 1;  // for collectives on each device at once
  // What the communicator gets in place of the transport; empty: the transport itself.
  std::function<std::shared_ptr<Transport>(std::shared_ptr<Transport>)> wrap = {};
  std::shared_ptr<ThreadWorld> world = {};  // of the last run
};

// body(NcclRank) on n ranks; also the reports of those that failed. What NCCL forbids is a failure
// of rank 0.
template <class Body>
std::vector<RankReport> run_nccl_ranks(int n, NcclRun& run, Body body) {
  install_accelerator();
  run.world = std::make_shared<ThreadWorld>(n);
  std::vector<RankReport> reports(static_cast<size_t>(n));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      RankReport& report = reports[static_cast<size_t>(rank)];
      report.context = std::make_shared<RankContext>();
      report.context->rank = rank;
      report.context->size = n;
      const auto nccl = std::make_shared<MailboxNccl>(run.mail);
      const auto transport = std::make_shared<NcclTransport>(
          std::make_shared<ThreadTransport>(run.world, rank), nccl, run.gpu_timeout);
      nccl->room = run.room;
      nccl->meanwhile = [rank = transport.get()] { rank->advance(); };
      auto on_rank = [&](Communicator& communicator) {
        body(NcclRank{communicator, *transport, *nccl});
      };
      const std::shared_ptr<Transport> outer = run.wrap ? run.wrap(transport) : transport;
      detail::run_rank(rank, run.world, outer, on_rank, run.options, report, Where::current());
    });
  for (std::thread& thread : threads) thread.join();
  for (RankReport& report : reports) report.engine.reset();  // the transport leaves its lanes
  for (const std::string& complaint : run.mail->complaints())
    reports[0].error = std::make_exception_ptr(CommError(Where::current(), "NCCL: " + complaint));
  return reports;
}

}  // namespace yotta_test
