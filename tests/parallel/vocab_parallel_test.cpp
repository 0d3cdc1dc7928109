#include "yotta/parallel/vocab_parallel.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"
#include "support/parts_check.hpp"
#include "support/rank_errors.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

Tensor tokens(const std::vector<int32_t>& values) {
  return Tensor::from<int32_t>(values, {std::ssize(values)});
}

constexpr int64_t V = 24, C = 5, N = 7;  // V divides by 1, 2, 3, 4 and 8
const std::vector<int32_t> some_ids = {3, 23, 0, 3, 11, 12, 3};

// The rows of a whole (V, ...) tensor that a rank of tp holds.
Tensor own_rows(const Tensor& whole, const Communicator& tp) {
  const int64_t held = whole.dim(0) / axis_size(tp);
  return whole.rows(axis_rank(tp) * held, (axis_rank(tp) + 1) * held);
}
ParameterPtr table(int64_t vocabulary) {
  return make_parameter("e.weight", {vocabulary, C}, true, normal(1), 1, DType::f64);
}
VocabParallelEmbedding cut_table(int64_t vocabulary, const Communicator& tp) {
  Embedding whole("e", table(vocabulary));
  cut_by_tokens(*whole.table(), tp);
  return {std::move(whole), std::make_shared<Border>(tp)};
}

}  // namespace

TEST_CASE("rows of the table and their gradients are the serial embedding's, on 1 to 8 ranks") {
  const Tensor ids = tokens(some_ids).reshape({1, N}), dy = random_tensor({1, N, C}, "dy");
  Embedding serial("e", table(V));
  Saved serial_saved;
  const Tensor expected = serial.forward(ids, serial_saved);
  serial.backward_input(dy, serial_saved);
  serial.backward_weight(serial_saved);
  for (const int ranks : {1, 2, 3, 4, 8})
    run_ranks(ranks, [&](Communicator& tp) {
      VocabParallelEmbedding part = cut_table(V, tp);
      check_equal(part.table()->value, own_rows(serial.table()->value, tp), "table");
      Saved saved;
      check_equal(part.forward(ids, saved), expected, "y");
      const int64_t sent = context().ledger.traffic("tp.forward").bytes_sent;
      part.backward_input(dy, saved);
      part.backward_weight(saved);
      check_equal(part.table()->grad, own_rows(serial.table()->grad, tp), "dtable");
      CHECK(saved.bytes() == 0);
      CHECK(context().ledger.total_traffic().bytes_sent == sent);  // nothing backward
    });
}

TEST_CASE("a vocabulary that tp does not divide is padded, and the padding changes nothing") {
  const int64_t odd = 22;  // on 8 ranks: 7 have 3 tokens, the last has 1
  const std::vector<int32_t> some = {3, 21, 0, 3, 11, 12, 3};
  const Tensor ids = tokens(some), dy = random_tensor({1, N, C}, "dy");
  Embedding serial("e", table(odd));
  Saved serial_saved;
  const Tensor expected = serial.forward(ids.reshape({1, N}), serial_saved);
  serial.backward_input(dy, serial_saved);
  serial.backward_weight(serial_saved);
  const Tensor whole = random_tensor({N, odd}, "logits");
  const CrossEntropy loss = cross_entropy(whole, ids, 0.5);
  const Tensor dwhole = cross_entropy_backward(whole, ids, loss.log_sum_exp, 0.5);
  for (const int ranks : {3, 4, 5, 8, 15}) {  // of 15 ranks 11 have 2 tokens, and 4 none
    CAPTURE(ranks);
    run_ranks(ranks, [&](Communicator& tp) {
      VocabParallelEmbedding part = cut_table(odd, tp);
      const int64_t held = (odd + ranks - 1) / ranks, first = tp.rank() * held;
      const auto check_rows = [&](const Tensor& mine, const Tensor& all) {
        for (int64_t r = 0; r < held; ++r)
          for (int64_t c = 0; c < C; ++c)
            CHECK(mine.item({r, c}) == (first + r < odd ? all.item({first + r, c}) : 0));
      };
      check_rows(part.table()->value, serial.table()->value);
      Saved saved;
      check_equal(part.forward(ids.reshape({1, N}), saved), expected, "y");
      part.backward_input(dy, saved);
      part.backward_weight(saved);
      check_rows(part.table()->grad, serial.table()->grad);

      Tensor logits = Tensor::full({N, held}, 7, DType::f64);  // 7: what padding must not be
      const auto each = [&](auto use) {
        for (int64_t n = 0; n < N; ++n)
          for (int64_t v = 0; v < held; ++v) use(n, v, first + v < odd);
      };
      each([&](int64_t n, int64_t v, bool real) {
        if (real) logits.data<double>()[n * held + v] = whole.item({n, first + v});
      });
      mask_padding(logits, odd, tp);
      const CrossEntropy out = vocab_parallel_cross_entropy(logits, ids, 0.5, tp);
      CHECK(std::abs(out.loss - loss.loss) <= 1e-12 * loss.loss);
      check_equal(out.log_sum_exp, loss.log_sum_exp, "log-sum-exp");
      vocab_parallel_cross_entropy_backward_in_place(logits, ids, out.log_sum_exp, 0.5, tp);
      each([&](int64_t n, int64_t v, bool real) {
        const double d = logits.item({n, v});
        CHECK((real ? std::abs(d - dwhole.item({n, first + v})) <= 1e-12 : d == 0));
      });
    });
  }
}

TEST_CASE("a rank without any of the batch's tokens, and a batch without tokens") {
  run_ranks(3, [&](Communicator& tp) {
    VocabParallelEmbedding part = cut_table(V, tp);
    Saved saved;
    const Tensor y = part.forward(tokens({1, 2}).reshape({1, 2}), saved);  // all on rank 0
    part.backward_input(y, saved);
    part.backward_weight(saved);
    double largest = 0;
    for (const double g : part.table()->grad.values()) largest = std::max(largest, std::abs(g));
    CHECK((largest > 0) == (tp.rank() == 0));
    Saved none;
    CHECK(part.forward(Tensor::empty({0, 1}, DType::i32), none).shape() == Shape{0, 1, C});
    Tensor no_logits = Tensor::empty({0, V / 3}, DType::f64);
    CHECK(vocab_parallel_cross_entropy(no_logits, tokens({}), 1, tp).loss == 0);
  });
}

TEST_CASE("mistakes are named: targets that are padding, tokens outside the whole vocabulary") {
  check_says(error_of<RankFailed>(5,
                                  [](Communicator& tp) {  // 25 rows, and token 24 is none
                                    Tensor logits = Tensor::zeros({1, 5});
                                    mask_padding(logits, V, tp);
                                    vocab_parallel_cross_entropy(logits, tokens({24}), 1, tp);
                                  }),
             {"the target of token 0 is padding, outside the vocabulary"});
  check_says(error_of<RankFailed>(2,
                                  [](Communicator& tp) {
                                    VocabParallelEmbedding part = cut_table(V, tp);
                                    Saved saved;
                                    part.forward(tokens({3, 24}).reshape({1, 2}), saved);
                                  }),
             {"id 24 of token 1 is outside the vocabulary of 24"});
  check_says(error_of<RankFailed>(2,
                                  [](Communicator& tp) {
                                    const Tensor logits = Tensor::zeros({1, V / 2});
                                    vocab_parallel_cross_entropy(logits, tokens({-2}), 1, tp);
                                  }),
             {"target -2 of token 0 is outside the vocabulary of 24"});
  check_says(error_of<RankFailed>(2,
                                  [](Communicator& tp) {
                                    const Tensor logits = Tensor::zeros({4, V / 2});
                                    vocab_parallel_cross_entropy(logits, tokens({1, 2}), 1, tp);
                                  }),
             {"targets is (2) i32, expected (4)"});
}
