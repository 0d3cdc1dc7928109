// Latent attention against its formulas, its gradients, and what its matrices hold.
#include "yotta/nn/latent_attention.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "nn/gradient_check.hpp"
#include "support/layer_check.hpp"
#include "support/message_of.hpp"
#include "yotta/nn/transformer.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t B = 2, T = 5, C = 10, H = 3, Rq = 7, R = 6, P = 3, D = 4, V = 5;

TransformerConfig config_of(AttentionKind kind, int64_t value = V) {
  TransformerConfig c = llama_config(2, C, 12, H, H, 8, 11);
  c.latent = {R, Rq, P, D, value};
  c.deviation = 0.5, c.dtype = DType::f64, c.seed = 3, c.rope_theta = 50, c.attention = kind;
  return c;
}

// ---- the formulas of the paper, token by token ----
using Row = std::vector<double>;
Row times(const Tensor& w, const Row& x) {  // (O, I) x
  const std::vector<double> values = w.values();
  Row y(static_cast<size_t>(w.dim(0)), 0);
  for (size_t o = 0; o < y.size(); ++o)
    for (size_t i = 0; i < x.size(); ++i) y[o] += values[o * x.size() + i] * x[i];
  return y;
}
Row normed(const Row& x, const Tensor& weight, double epsilon) {
  const std::vector<double> w = weight.values();
  double sum = 0;
  for (const double each : x) sum += each * each;
  Row y = x;
  for (size_t i = 0; i < y.size(); ++i)
    y[i] *= w[i] / std::sqrt(sum / static_cast<double>(x.size()) + epsilon);
  return y;
}
Row turned(Row x, int64_t position, double theta) {
  const size_t half = x.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) *
                         std::pow(theta, -2.0 * static_cast<double>(i) / double(x.size()));
    const double a = x[i], b = x[half + i];
    x[i] = a * std::cos(angle) - b * std::sin(angle);
    x[half + i] = b * std::cos(angle) + a * std::sin(angle);
  }
  return x;
}
Row part(const Row& x, size_t first, size_t count) {
  return Row(x.begin() + static_cast<int64_t>(first),
             x.begin() + static_cast<int64_t>(first + count));
}

struct Weights {
  std::map<std::string, Tensor> of;
  explicit Weights(Layer& layer) {
    std::vector<ParameterPtr> all;
    layer.add_parameters(all);
    for (const ParameterPtr& each : all) of[each->name] = each->value;
  }
  const Tensor& operator[](const std::string& name) const { return of.at("a." + name + ".weight"); }
};

// One sequence x (T rows) -> (T rows).
std::vector<Row> reference(const Weights& w, const std::vector<Row>& x,
                           const TransformerConfig& c) {
  const auto value = static_cast<size_t>(c.latent.value);
  std::vector<Row> q, k, v, y;
  for (size_t t = 0; t < x.size(); ++t) {
    const Row cq = normed(times(w["q.down"], x[t]), w["q.norm"], c.norm_epsilon);
    const Row ckv = normed(times(w["kv.down"], x[t]), w["kv.norm"], c.norm_epsilon);
    const Row qc = times(w["q.up"], cq), qr = times(w["q.turned"], cq);
    const Row kc = times(w["k.up"], ckv), vc = times(w["v.up"], ckv);
    const auto at = static_cast<int64_t>(t);
    const Row kr = turned(times(w["k.turned"], x[t]), at, c.rope_theta);
    for (size_t h = 0; h < H; ++h) {
      Row qh = part(qc, h * P, P), kh = part(kc, h * P, P);
      const Row qt = turned(part(qr, h * D, D), at, c.rope_theta);
      qh.insert(qh.end(), qt.begin(), qt.end());
      kh.insert(kh.end(), kr.begin(), kr.end());
      q.push_back(qh), k.push_back(kh), v.push_back(part(vc, h * value, value));
    }
  }
  for (size_t t = 0; t < x.size(); ++t) {
    Row out;
    for (size_t h = 0; h < H; ++h) {
      Row weight, sum(value, 0);
      double total = 0;
      for (size_t s = 0; s <= t; ++s) {
        double score = 0;
        for (size_t i = 0; i < P + D; ++i) score += q[t * H + h][i] * k[s * H + h][i];
        weight.push_back(std::exp(score / std::sqrt(double(P + D))));
        total += weight.back();
      }
      for (size_t s = 0; s <= t; ++s)
        for (size_t i = 0; i < value; ++i) sum[i] += weight[s] / total * v[s * H + h][i];
      out.insert(out.end(), sum.begin(), sum.end());
    }
    y.push_back(times(w["o"], out));
  }
  return y;
}

}  // namespace

TEST_CASE("two parts of a head are joined, and cut again; one that all share gets the sum") {
  const Tensor a = random_tensor({2, 3, 4, 5}, "a"), b = random_tensor({2, 3, 4, 2}, "b");
  const HeadParts parts = split_heads(join_heads(a, b), 5, false);
  CHECK(parts.a.values() == a.values());
  CHECK(parts.b.values() == b.values());
  const Tensor one = random_tensor({2, 3, 1, 2}, "one");
  const Tensor both = join_heads(a, one);
  for (int64_t n = 0; n < 2 * 3 * 4; ++n)
    for (int64_t i = 0; i < 2; ++i)
      CHECK(both.values()[static_cast<size_t>(n * 7 + 5 + i)] ==
            one.values()[static_cast<size_t>(n / 4 * 2 + i)]);
  const HeadParts shared = split_heads(join_heads(a, b), 5, true);
  REQUIRE(shared.b.shape() == Shape{2, 3, 1, 2});
  const std::vector<double> each = b.values(), sum = shared.b.values();
  for (size_t n = 0; n < 6; ++n)
    for (size_t i = 0; i < 2; ++i) {
      double expected = 0;
      for (size_t h = 0; h < 4; ++h) expected += each[(n * 4 + h) * 2 + i];
      CHECK(sum[n * 2 + i] == doctest::Approx(expected));
    }
  CHECK(contains(message_of([&] {
                   join_heads(a, random_tensor({2, 3, 2, 2}, "two"));
                 }),
                 "join_heads: b is"));
  CHECK(contains(message_of([&] { split_heads(a, 5, true); }), "5 of the 5 numbers of a head"));
  for (const DType type : {DType::f32, DType::bf16})
    CHECK(split_heads(join_heads(a.to(type), b.to(type)), 5, false).b.values() ==
          b.to(type).values());
}

TEST_CASE("attention from latents is what the paper's formulas give, token by token") {
  for (const AttentionKind kind : {AttentionKind::plain, AttentionKind::blockwise})
    for (const int64_t value : {V, P + D}) {
      const TransformerConfig c = config_of(kind, value);
      Attention attention("a", c);
      for (auto& [name, weight] : Weights(attention).of)  // norms start at 1
        if (name.find("norm") != name.npos)
          Tensor(weight).copy_from(random_tensor(weight.shape(), name));
      const Tensor x = random_tensor({B, T, C}, "x");
      Saved saved;
      const Tensor y = attention.forward(x, saved);
      REQUIRE(y.shape() == Shape{B, T, C});
      const std::vector<double> given = y.values(), numbers = x.values();
      const Weights weights(attention);
      for (size_t b = 0; b < B; ++b) {
        std::vector<Row> rows;
        for (size_t t = 0; t < T; ++t) rows.push_back(part(numbers, (b * T + t) * C, C));
        const std::vector<Row> expected = reference(weights, rows, c);
        for (size_t t = 0; t < T; ++t)
          for (size_t i = 0; i < C; ++i)
            CHECK(given[(b * T + t) * C + i] == doctest::Approx(expected[t][i]).epsilon(1e-10));
      }
    }
}

TEST_CASE("gradients: of x and of every matrix and norm, with values shorter than keys or not") {
  for (const AttentionKind kind : {AttentionKind::plain, AttentionKind::blockwise})
    for (const int64_t value : {V, P + D}) {
      std::vector<LayerPtr> layers;
      layers.push_back(std::make_unique<Attention>("a", config_of(kind, value)));
      check_gradients(layers, random_tensor({B, T, C}, "x"), {0, 0, 0, 3});
    }
}

TEST_CASE("a model of latent attention has as many parameters as its configuration says") {
  TransformerConfig c = config_of(AttentionKind::blockwise);
  CHECK(parameter_count(Transformer(c).stack()) == parameters(c));
  c.mixture.experts = 4, c.mixture.dense_layers = 1, c.mixture.dense_width = 20;
  const Transformer model(c);  // its experts are not there yet
  const int64_t experts = mixture_parameters(c, 4);
  CHECK(parameter_count(model.stack()) == parameters(c) - experts);
  CHECK(dynamic_cast<Mlp*>(model.blocks()[0]->mlp.get()) != nullptr);
  CHECK(dynamic_cast<Mlp*>(model.blocks()[1]->mlp.get()) == nullptr);
}

TEST_CASE("sizes that latent attention cannot have are refused by name") {
  const auto problem = [](auto change) {
    TransformerConfig c = config_of(AttentionKind::blockwise);
    change(c);
    return message_of([&] { c.check(); });
  };
  CHECK(contains(problem([](auto& c) { c.latent.q_rank = 0; }), "latents of 0 and 6 numbers"));
  CHECK(contains(problem([](auto& c) { c.latent.kv_rank = 0; }), "latents of 7 and 0 numbers"));
  CHECK(contains(problem([](auto& c) { c.latent.turned = 3; }), "even number of turned ones"));
  CHECK(contains(problem([](auto& c) { c.latent.value = 8; }), "has 8 numbers, and its key 7"));
  CHECK(contains(problem([](auto& c) { c.kv_heads = 1; }), "for llama with 1 key/value heads"));
  CHECK(contains(problem([](auto& c) { c.mixture.dense_layers = 1; }), "in front of a mixture"));
  CHECK_NOTHROW(config_of(AttentionKind::blockwise).check());
}
