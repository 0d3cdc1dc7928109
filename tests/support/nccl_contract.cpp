// Makes run_ranks run NCCL ranks, for the tests of every transport. Here NCCL is mailboxes, the
// device the emulator's, and the ranks are threads; with a GPU, see support/main.cpp.
#include "support/nccl_ranks.hpp"
#include "support/on_cuda.hpp"
#include "support/ranks_here.hpp"

namespace yotta_test {
namespace {

class NcclHost : public RankHost {
 public:
  NcclHost() {
    rank_host() = this;
    waits_on_device() = true;
  }
  std::vector<RankReport> run(int n, const std::function<void(Communicator&)>& body,
                              const RunOptions& options, Where where) override {
    NcclRun run{.options = options, .wrap = [](std::shared_ptr<Transport> nccl) {
                  return std::make_shared<OnCuda>(std::move(nccl));
                }};
    std::vector<RankReport> reports =
        run_nccl_ranks(n, run, [&](const NcclRank& rank) { body(rank.world); });
    detail::rethrow_root_cause(reports, run.world->first_failed(), where);
    if (const std::string left = run.world->find_unreceived(); !left.empty())
      throw CommError(where, left);
    return reports;
  }
} host;

}  // namespace
}  // namespace yotta_test
