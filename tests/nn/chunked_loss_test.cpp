#include "yotta/nn/chunked_loss.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"
#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t B = 3, T = 7, N = B * T, C = 12, V = 29;

TransformerConfig tiny(Dialect dialect, bool tied, DType dtype) {
  TransformerConfig c =
      dialect == Dialect::gpt2 ? gpt2_config(1, C, 2, T, V) : llama_config(1, C, 20, 2, 1, T, V);
  c.tied = tied, c.deviation = 0.3, c.dtype = dtype;
  return c;
}

// Every fifth one is no_target.
Tensor ids_of(uint64_t seed, bool with_gaps) {
  Tensor made = Tensor::empty({B, T}, DType::i32);
  for (int64_t i = 0; i < N; ++i)
    made.data<int32_t>()[i] =
        with_gaps && i % 5 == 0
            ? no_target
            : static_cast<int32_t>(Random(seed, "ids").below(static_cast<uint64_t>(i), V));
  return made;
}

struct Outcome {
  double loss = 0, forward_loss = 0;
  std::vector<ParameterPtr> trained;
  std::vector<int> reports;  // by parameter: how often its gradient was said to be ready
};

// Two microbatches, whose gradients add up. `tokens`: of a chunk; 0: the plain loss.
Outcome run(const TransformerConfig& c, int64_t tokens) {
  const Transformer model(c);
  const LossOf loss = tokens == 0 ? LossOf(loss_of) : chunked_loss(*model.head(), tokens);
  Outcome out;
  out.trained = parameters(model.stack());
  out.reports.resize(out.trained.size());
  for (size_t i = 0; i < out.trained.size(); ++i)
    out.trained[i]->on_grad_ready = [&out, i](Parameter&) { ++out.reports[i]; };
  for (const bool with_gaps : {false, true}) {
    const Tensor ids = ids_of(1, false), targets = ids_of(2, with_gaps);
    Saved saved, again;
    Tensor d;
    out.loss += loss(forward(model.stack(), ids, saved), targets, 1.0 / N, &d);
    backward(model.stack(), d, saved);
    CHECK(saved.empty());
    out.forward_loss += loss(forward(model.stack(), ids, again), targets, 1.0 / N, nullptr);
  }
  for (const ParameterPtr& each : out.trained) each->on_grad_ready = nullptr;
  return out;
}

// The largest difference of two tensors, as a share of the second one's largest number.
double relative_difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (const double each : b.values()) largest = std::max(largest, std::abs(each));
  return largest_difference(a, b) / largest;
}

void check_equals_plain(DType dtype, double tolerance) {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama})
    for (const bool tied : {false, true})
      for (const int64_t tokens : {1, 4, 7, 20, 21, 1000}) {
        const TransformerConfig c = tiny(dialect, tied, dtype);
        const Outcome plain = run(c, 0), chunked = run(c, tokens);
        CAPTURE(std::string(name(dialect)));
        CAPTURE(tied);
        CAPTURE(tokens);
        CHECK(std::abs(chunked.loss - plain.loss) <= 1e-2 * tolerance * plain.loss);
        CHECK(std::abs(chunked.forward_loss - plain.loss) <= 1e-2 * tolerance * plain.loss);
        CHECK(chunked.reports == std::vector<int>(chunked.trained.size(), 2));
        REQUIRE(chunked.trained.size() == plain.trained.size());
        for (size_t i = 0; i < plain.trained.size(); ++i) {
          const std::string& of = plain.trained[i]->name;
          if (of.ends_with("attention.k.bias")) continue;  // rounding alone
          CAPTURE(of);
          CHECK(chunked.trained[i]->name == of);
          CHECK(relative_difference(chunked.trained[i]->grad, plain.trained[i]->grad) <= tolerance);
        }
      }
}

// What a loss and its backward pass hold at most, beside what was there before; and their counts.
struct Counted {
  int64_t bytes = 0;
  double flops = 0, moved = 0;
};
Counted count(DType dtype, int64_t tokens) {
  RankContext rank;
  const ContextScope scope(rank);
  const DeviceScope meta(Device::meta);
  const Transformer model(tiny(Dialect::llama, false, dtype));
  Head& head = *model.head();
  head.out->operator[](0).weight_parameter().gradient();
  const LossOf loss = tokens == 0 ? LossOf(loss_of) : chunked_loss(head, tokens);
  Saved saved;
  Tensor d;
  const Tensor x = Tensor::empty({B, T, C}, dtype), targets = Tensor::empty({B, T}, DType::i32);
  rank.ledger.reset();
  MemoryCount& memory = *rank.ledger.memory();
  memory.reset_peaks();
  const int64_t before = memory.live();
  d = head.out->backward_input({[&] {
                                 loss(head.out->forward(x, saved)[0], targets, 1, &d);
                                 return d;
                               }()},
                               saved);
  head.out->backward_weight(saved);
  Counted counted{memory.peak() - before, rank.ledger.total_flops(), 0};
  for (const auto& [name, count] : rank.ledger.ops())
    counted.moved += count.bytes_read + count.bytes_written;
  return counted;
}

}  // namespace

TEST_CASE("in chunks of any size: the plain loss, and every gradient") {
  check_equals_plain(DType::f64, 1e-12);
  check_equals_plain(DType::f32, 1e-5);
  check_equals_plain(DType::bf16, 2e-2);
}

TEST_CASE("one chunk is the plain loss to the bit") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const TransformerConfig c = tiny(Dialect::gpt2, true, dtype);
    const Outcome plain = run(c, 0), chunked = run(c, N);
    CHECK(chunked.loss == plain.loss);
    for (size_t i = 0; i < plain.trained.size(); ++i)
      CHECK(same_bits(chunked.trained[i]->grad, plain.trained[i]->grad));
  }
}

TEST_CASE("bytes held, bytes moved and FLOPs are the formulas'") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Counted plain = count(dtype, 0);
    for (const int64_t n : {1, 5, 21, 40}) {
      CAPTURE(n);
      const Counted chunked = count(dtype, n);
      const int64_t rows = std::min(n, N);
      CHECK(chunked.flops == plain.flops);
      // logits, dx, and of each token of a chunk its loss and its log-sum-exp in f32
      CHECK(chunked.bytes == logits_bytes(dtype, N, n, V) + N * C * bytes_of(dtype) + rows * 2 * 4);
      const double more = static_cast<double>(chunked_loss_more_bytes(dtype, N, n, C, V));
      CHECK(chunked.moved == plain.moved + more);
    }
    CHECK(plain.bytes ==
          std::max(N * C * bytes_of(dtype), N * 2 * int64_t{4}) + logits_bytes(dtype, N, N, V));
  }
}

TEST_CASE("a chunk of no token is refused, and a head's matrix moves once") {
  const Transformer model(tiny(Dialect::gpt2, true, DType::f32));
  CHECK(contains(message_of([&] { chunked_loss(*model.head(), 0); }),
                 "chunked_loss: chunks of 0 tokens; it takes 1 or more"));
  const size_t before = parameters(model.stack()).size();
  const LossOf a = chunked_loss(*model.head(), 4), b = chunked_loss(*model.head(), 5);
  CHECK(parameters(model.stack()).size() == before);
  CHECK(model.embedding()->tokens->table()->uses == 2);
  const Tensor targets = ids_of(2, false);
  Saved s, t;
  const double one = a(forward(model.stack(), ids_of(1, false), s), targets, 1, nullptr);
  CHECK(b(forward(model.stack(), ids_of(1, false), t), targets, 1, nullptr) ==
        doctest::Approx(one).epsilon(1e-6));
}
