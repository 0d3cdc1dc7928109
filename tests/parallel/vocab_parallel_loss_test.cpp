#include "yotta/parallel/vocab_parallel_loss.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"
#include "support/parts_check.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/parallel/tensor_parallel.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

Tensor tokens(const std::vector<int32_t>& values) {
  return Tensor::from<int32_t>(values, {std::ssize(values)});
}

constexpr int64_t V = 24, N = 7;  // V divides by 1, 2, 3, 4 and 8
const std::vector<int32_t> some_ids = {3, 23, 0, 3, 11, 12, 3};

// The columns of a whole (N, V) tensor that a rank of tp holds.
Tensor own_columns(const Tensor& whole, const Communicator& tp) {
  const int64_t held = whole.dim(1) / axis_size(tp), first = axis_rank(tp) * held;
  Tensor part = Tensor::empty({whole.dim(0), held}, whole.dtype());
  for (int64_t n = 0; n < part.dim(0); ++n)
    for (int64_t v = 0; v < held; ++v)
      part.data<double>()[n * held + v] = whole.item({n, first + v});
  return part;
}

}  // namespace

TEST_CASE("the loss and its gradient are those of whole logits, large ones included") {
  Tensor logits = random_tensor({N, V}, "logits");
  for (int64_t v = 0; v < V; ++v) logits.data<double>()[2 * V + v] += 800;  // e^800 overflows
  for (int64_t v = 0; v < V; ++v) logits.data<double>()[3 * V + v] -= 800;
  std::vector<int32_t> ids = some_ids;
  ids[5] = no_target;
  const Tensor targets = tokens(ids);
  const CrossEntropy whole = cross_entropy(logits, targets, 0.5);
  const Tensor dlogits = cross_entropy_backward(logits, targets, whole.log_sum_exp, 0.5);
  for (const int ranks : {1, 2, 3, 4, 8}) {
    int64_t sent = 0;
    for (const RankReport& rank : run_ranks(ranks, [&](Communicator& tp) {
           Tensor part = own_columns(logits, tp);
           const CrossEntropy out = vocab_parallel_cross_entropy(part, targets, 0.5, tp);
           CHECK(std::abs(out.loss - whole.loss) <= 1e-12 * whole.loss);
           check_equal(out.losses, whole.losses, "losses");
           check_equal(out.log_sum_exp, whole.log_sum_exp, "log-sum-exp");
           vocab_parallel_cross_entropy_backward_in_place(part, targets, out.log_sum_exp, 0.5, tp);
           check_equal(part, own_columns(dlogits, tp), "dlogits");
         }))
      sent += rank.ledger().total_traffic().bytes_sent;
    // Three numbers per token go round, and nothing else: logits are never gathered.
    CHECK(sent == tensor_parallel_bytes_sent_by_all(ranks, vocab_parallel_loss_numbers(N), 8));
  }
}
