#include "yotta/parallel/cuda/parallel_kernels.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/embedding.hpp"
#include "yotta/parallel/context_parallel.hpp"
#include "yotta/parallel/ulysses.hpp"
#include "yotta/parallel/vocab_parallel.hpp"

using namespace yotta;
using namespace yotta_test;

// What the techniques compute between messages, on Device::cuda (here the emulator's) as on the
// CPU.

namespace {

using OnRanks = std::vector<Tensor>;

Tensor cuda_values(Shape shape, const char* name, DType dtype) {
  Tensor x = Tensor::empty(std::move(shape), DType::f64);
  const Random random(11, name);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<double>()[i] = 4 * random.uniform(static_cast<uint64_t>(i)) - 2;
  return x.to(dtype);
}

// op(cp, device) on `ranks` ranks, on both devices; all that it returns must agree.
template <class Op>
void check_on_ranks(int ranks, DType dtype, Op op) {
  install_accelerator();
  install_all_kernels();
  run_ranks(ranks, [&](Communicator& group) {
    const OnRanks here = op(group, Device::cpu), there = op(group, Device::cuda);
    for (size_t i = 0; i < here.size(); ++i) {
      if (there[i].device() != Device::cuda) fail(Where::current(), "{} is not on cuda", i);
      const std::vector<double> a = here[i].values(), b = there[i].values();
      for (size_t j = 0; j < a.size(); ++j)
        if (!(a[j] == b[j] || std::abs(a[j] - b[j]) <= (dtype == DType::f64 ? 1e-12 : 1e-5)))
          fail(Where::current(), "tensor {}, number {}: {} and on cuda {}", i, j, a[j], b[j]);
    }
  });
  CHECK(true);  // a rank that differs throws
}

}  // namespace

TEST_CASE("parts of attention are merged on cuda, those that saw nothing too") {
  for (const DType dtype : {DType::f32, DType::f64})
    check_on_ranks(1, dtype, [&](Communicator&, Device device) {
      const auto part = [&](const char* name) {
        FlashAttention made{cuda_values({2, 3, 2, 35}, name, dtype),
                            cuda_values({2, 2, 3}, name, dtype)};
        made.log_sum_exp.rows(0, 1).zero();
        return made;
      };
      FlashAttention sum = part("a"), other = part("b");
      const double nothing = -std::numeric_limits<double>::infinity();
      for (FlashAttention* each : {&sum, &other}) {
        Tensor none = Tensor::full({1, 2, 3}, nothing, dtype);
        each->log_sum_exp.rows(each == &sum ? 0 : 1, each == &sum ? 1 : 2).copy_from(none);
      }
      sum = {sum.o.to(device), sum.log_sum_exp.to(device)};
      merge(sum, {other.o.to(device), other.log_sum_exp.to(device)});
      return OnRanks{sum.o, sum.log_sum_exp};
    });
}

TEST_CASE("a vocabulary on several ranks on cuda: rows of the table, the loss, both gradients") {
  const std::vector<int32_t> ids = {3, 23, 0, 3, 11, 12, 3};
  for (const int tp : {2, 3, 5})  // 5 ranks hold 25 rows, one of them padding
    for (const DType dtype : {DType::f32, DType::f64})
      check_on_ranks(tp, dtype, [&](Communicator& group, Device device) {
        const Tensor targets = Tensor::from<int32_t>(ids, {7}).to(device);
        Tensor logits =
            cuda_values({7, rows_held(24, tp)}, group.rank() == 0 ? "l" : "r", dtype).to(device);
        mask_padding(logits, 24, group);
        const DeviceScope scope(device);
        const int64_t held = rows_held(24, tp);
        const ShardRange own{held, 5, group.rank() * held, 0, 24, 5};
        VocabParallelEmbedding table(
            Embedding("e", make_parameter("e.weight", own, true, normal(1), 1, dtype)),
            std::make_shared<Border>(group));
        Saved saved;
        const Tensor y = table.forward(targets.reshape({1, 7}), saved);
        table.backward_input(y, saved);
        table.backward_weight(saved);
        const CrossEntropy out = vocab_parallel_cross_entropy(logits, targets, 0.5, group);
        vocab_parallel_cross_entropy_backward_in_place(logits, targets, out.log_sum_exp, 0.5,
                                                       group);
        return OnRanks{y, table.table()->grad, out.losses, out.log_sum_exp, logits};
      });
  const Tensor outside = Tensor::from<int32_t>({24}, {1});
  CHECK(contains(message_of([&] {
                   embedding_shard(outside.to(Device::cuda),
                                   Tensor::zeros({12, 2}).to(Device::cuda), 12, 24)
                       .values();
                 }),
                 "id 24 of token 0 is outside the vocabulary of 24"));
}

TEST_CASE("attention over a sequence on several ranks on cuda: the ring, and Ulysses") {
  check_on_ranks(2, DType::f64, [](Communicator& cp, Device device) {
    const auto own = [&](const char* name) {
      return context_shard(cuda_values({1, 8, 2, 3}, name, DType::f64), cp).to(device);
    };
    const Tensor q = own("q"), k = own("k"), v = own("v"), dout = own("dout");
    const FlashAttention ring = ring_attention(q, k, v, cp);
    const AttentionGradients d = ring_attention_backward(dout, q, k, v, ring, cp);
    UlyssesSaved saved;
    const Tensor o = ulysses_attention(q, k, v, cp, saved);
    const AttentionGradients u = ulysses_attention_backward(dout, saved, cp);
    return OnRanks{ring.o, ring.log_sum_exp, d.dq, d.dk, d.dv, o, u.dq, u.dk, u.dv};
  });
}
