// TcpRanks: the processes of a job as ranks of run_ranks (process_ranks.hpp), without MPI.
//
//     int main() {
//       TcpRanks ranks;                  they find each other by torchrun's variables, or by a file: tcp_place.hpp
//       run_ranks(ranks.size(), [](Communicator& world) { ... });
//     }                                  waits for the others, and says good-bye
#pragma once

#include "yotta/comm/processes/process_ranks.hpp"
#include "yotta/comm/tcp/tcp.hpp"

namespace yotta {

struct TcpRanksOptions : ProcessRanksOptions {
  TcpOptions tcp = {};
};

class TcpRanks : public ProcessRanks {
 public:
  // Errors: who has not come; the variables are not set.
  explicit TcpRanks(TcpRanksOptions options = {}, Where where = Where::current())
      : TcpRanks(own_place(where), std::move(options), where) {}
  explicit TcpRanks(const TcpPlace& place, TcpRanksOptions options = {},
                    Where where = Where::current())
      : ProcessRanks(options, "the launcher", "WORLD_SIZE="),
        tcp_(options.tcp),
        mesh_(std::make_shared<TcpMesh>(TcpRendezvous(place, where).meet())) {
    join(place.rank, mesh_->processes());
  }
  ~TcpRanks() override {
    leave();
    if (!lost()) end("");
    mesh_->say_goodbye();
  }
  // Who was lost, if lost(): "rank 2 has failed: its process, 4711 on node7, ...".
  std::string describe_lost() const { return describe_end(lost_rank_, address(lost_rank_)); }

 private:
  static TcpPlace own_place(Where where) {
    if (const std::optional<TcpPlace> place = find_tcp_place()) return *place;
    fail(where,
         "this process does not know its place: set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT "
         "(as torchrun does), or YOTTA_RENDEZVOUS_FILE in place of the last two");
  }
  std::shared_ptr<Transport> make_transport(int n, const RunOptions& options) override {
    ++world_;
    if (rank() >= n) {
      mesh_->attach(world_, nullptr);
      return nullptr;
    }
    TcpOptions tcp = tcp_;
    if (!options.buffered_sends) tcp.eager_bytes = -1;
    return std::make_shared<TcpTransport>(mesh_, n, world_, tcp);
  }
  std::vector<std::string> all_gather(const std::string& mine) override {
    for (int other = 0; other < size(); ++other) mesh_->send_text(other, mine);
    std::vector<std::string> texts;
    while (std::ssize(texts) < size()) {
      const int next = static_cast<int>(texts.size());
      if (std::optional<std::string> text = mesh_->take_text(next)) {
        texts.push_back(std::move(*text));
        continue;
      }
      if (mesh_->lost() >= 0 || mesh_->is_gone(next)) {
        lost_rank_ = mesh_->lost() >= 0 ? mesh_->lost() : next;
        fail_lost(lost_rank_);
      }
      mesh_->progress(1);
    }
    while (mesh_->is_sending() && mesh_->lost() < 0) mesh_->progress(1);  // ours must have left too
    return texts;
  }

  TcpOptions tcp_;
  std::shared_ptr<TcpMesh> mesh_;
  int32_t world_ = 0;  // the number of runs
  int lost_rank_ = 0;
};

}  // namespace yotta
