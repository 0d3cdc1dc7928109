#include "yotta/parallel/diloco.hpp"

#include <doctest/doctest.h>

#include <optional>

#include "parallel/training_runs.hpp"
#include "support/message_of.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/parallel/ddp.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr LinearNetConfig net = {5, 6};
constexpr int64_t rows = 13;  // does not divide by 2, 3, 4 or 8
constexpr double rate = 0.05;
constexpr int worlds[] = {1, 2, 3, 4, 8};

std::vector<double> weights_of(const std::vector<ParameterPtr>& all) {
  std::vector<double> values;
  for (const ParameterPtr& each : all) append(values, each->value);
  return values;
}

// A worker's model, its inner optimizer, and its passes on its rows of each step's batch. The
// gradient is that of the mean over its own rows.
template <class Inner>
struct Worker {
  std::vector<LayerPtr> layers;
  std::vector<ParameterPtr> all;
  Inner inner;
  WorkerShare mine;

  Worker(const Communicator& world, uint64_t seed = 1)
      : layers(make_linear_net(net, {seed, DType::f64})),
        all(parameters(Layers(layers))),
        inner(all),
        mine(worker_share(rows, world.size(), world.rank())) {}

  void step(int64_t step) {
    zero_gradients(layers);
    run_microbatch(layers, step, mine.begin, mine.end, net.width, mine.end - mine.begin);
    inner.step(rate);
  }
};

// Weights of all workers after some steps.
template <class Inner>
std::vector<std::vector<double>> train(int k, const DilocoOptions& options, int64_t steps) {
  std::vector<std::vector<double>> out(static_cast<size_t>(k));
  run_ranks(k, [&](Communicator& world) {
    Worker<Inner> worker(world, static_cast<uint64_t>(1 + world.rank()));
    Diloco diloco(worker.inner, world, options);
    for (int64_t step = 0; step < steps; ++step) {
      worker.step(step);
      diloco.after_step(worker.mine.weight);
    }
    diloco.synchronise();
    out[static_cast<size_t>(world.rank())] = weights_of(worker.all);
  });
  return out;
}

template <class Inner>
std::vector<double> train_serial(int64_t steps) {
  std::vector<double> out;
  run_ranks(1, [&](Communicator& world) {
    Worker<Inner> worker(world);
    for (int64_t step = 0; step < steps; ++step) worker.step(step);
    out = weights_of(worker.all);
  });
  return out;
}

// SGD with DDP, whose loss is the mean over the rows of the whole batch.
std::vector<double> train_ddp(int k, int64_t steps) {
  std::vector<double> out;
  run_ranks(k, [&](Communicator& world) {
    Worker<Sgd> worker(world);
    Ddp ddp(worker.all, world);
    for (int64_t step = 0; step < steps; ++step) {
      zero_gradients(worker.layers);
      run_microbatch(worker.layers, step, worker.mine.begin, worker.mine.end, net.width, rows);
      ddp.finish();
      worker.inner.step(rate);
    }
    if (world.rank() == 0) out = weights_of(worker.all);
  });
  return out;
}

// Plain averaging: a rate of 1 and no momentum.
DilocoOptions plain(int64_t inner) { return {.inner = inner, .learning_rate = 1, .momentum = 0}; }

double largest_gap(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double gap = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (const double here = std::abs(a[i] - b[i]); !(here <= gap)) gap = here;  // NaN too
  return gap;
}

}  // namespace

TEST_CASE("H = 1, inner SGD, rate 1, no momentum, averaged by tokens: DDP") {
  for (const int k : worlds) {
    const auto expected = train_ddp(k, 4);
    for (const std::vector<double>& worker : train<Sgd>(k, plain(1), 4))
      check_equal(worker, expected, k, "weights");
  }
}

TEST_CASE("one worker, rate 1, no momentum: one rank, to the last bit, with AdamW too") {
  for (const int64_t inner : {1, 3, 7}) {
    CHECK(train<Sgd>(1, plain(inner), 10)[0] == train_serial<Sgd>(10));
    CHECK(train<AdamW>(1, plain(inner), 10)[0] == train_serial<AdamW>(10));
  }
  DilocoOptions streaming = plain(6);
  streaming.fragments = 3;
  CHECK(train<AdamW>(1, streaming, 13)[0] == train_serial<AdamW>(13));
}

TEST_CASE("all workers hold the same weights after a round, whatever the options") {
  for (const int k : worlds)
    for (const DilocoOptions& options :
         {DilocoOptions{.inner = 3}, DilocoOptions{.inner = 4, .fragments = 2, .overlap = 1},
          DilocoOptions{.inner = 5, .fragments = 5, .overlap = 4, .keep = 0.5},
          DilocoOptions{.inner = 3, .bits = 8},
          DilocoOptions{.inner = 4, .fragments = 2, .overlap = 3, .keep = 0.5, .bits = 4}}) {
      const auto workers = train<AdamW>(k, options, 10);
      for (const std::vector<double>& each : workers) CHECK(each == workers[0]);
    }
}

TEST_CASE("Nesterov's outer step is PyTorch's SGD on the outer gradient") {
  // w = 1, means 0.5 and then 0: g = 0.5, v = 0.5, w = 1 - 0.7 (0.5 + 0.9 0.5) = 0.335
  Tensor w = Tensor::full({1}, 1, DType::f64), v = Tensor::zeros({1}, DType::f64);
  outer_step(w, v, Tensor::full({1}, 0.5, DType::f64), {});
  CHECK(std::abs(w.item({0}) - 0.335) <= 1e-15);
  CHECK(std::abs(v.item({0}) - 0.5) <= 1e-15);
  outer_step(w, v, Tensor::zeros({1}, DType::f64), {});  // g = 0.335, v = 0.45 + 0.335 = 0.785
  CHECK(std::abs(w.item({0}) - (0.335 - 0.7 * (0.335 + 0.9 * 0.785))) <= 1e-15);
}

TEST_CASE("the mean counts workers by their tokens") {
  // 13 rows on 2 workers: 7 and 6. One step of SGD each, then the mean.
  const auto one = [&](int rank) {
    std::vector<double> out;
    run_ranks(2, [&](Communicator& world) {
      Worker<Sgd> worker(world);
      worker.step(0);
      if (world.rank() == rank) out = weights_of(worker.all);
    });
    return out;
  };
  const std::vector<double> first = one(0), second = one(1), mean = train<Sgd>(2, plain(1), 1)[0];
  for (size_t i = 0; i < mean.size(); ++i)
    CHECK(std::abs(mean[i] - (7 * first[i] + 6 * second[i]) / 13) <= 1e-15);
}

TEST_CASE("bytes in a step fall by H") {
  const auto sent = [](int k, bool diloco, int64_t inner, int64_t steps) {
    int64_t bytes = 0;
    const auto reports = run_ranks(k, [&](Communicator& world) {
      Worker<Sgd> worker(world);
      const CommOptions ring = {Algorithm::ring};
      if (!diloco) {
        Ddp ddp(worker.all, world, {.comm = ring});
        for (int64_t step = 0; step < steps; ++step) ddp.finish();
      } else {
        Diloco outer(worker.inner, world, {.inner = inner, .comm = ring});
        for (int64_t step = 0; step < steps; ++step) outer.after_step();
      }
    });
    for (const RankReport& each : reports)
      bytes += each.ledger().traffic(diloco ? "diloco.mean" : "ddp.gradients").bytes_sent;
    return bytes;
  };
  constexpr int64_t n = parameters(net);
  for (const int k : {2, 3, 4, 8}) {
    CHECK(sent(k, false, 1, 10) == 10 * ddp_bytes_sent_by_all(k, 8 * n));
    CHECK(sent(k, true, 5, 10) == 2 * mean_bytes_sent(k, n, 8));
    // The weight of a worker is one number more: 1 in 180 here, nothing in a model.
    const double ratio =
        static_cast<double>(sent(k, false, 1, 50)) / static_cast<double>(sent(k, true, 50, 50));
    CHECK(std::abs(ratio * (n + 1) / n - 50) <= 1e-9);
  }
}

TEST_CASE("packed outer gradients: bytes as counted, and a mean within the rounding") {
  for (const int k : {2, 3, 4, 8})
    for (const int bits : {8, 4}) {
      std::vector<std::vector<double>> means(static_cast<size_t>(k));
      const int64_t n = 700;
      const auto reports = run_ranks(k, [&](Communicator& world) {
        Tensor x = batch_rows("outer", world.rank(), 0, n, 1).reshape({n});
        Lost lost;
        world.collective("mean", [&](Channel& channel) {
          quantised_mean(channel, x, 1 + world.rank(), bits, lost);
        });
        means[static_cast<size_t>(world.rank())] = x.values();
      });
      int64_t bytes = 0;
      for (const RankReport& each : reports) bytes += each.ledger().traffic("mean").bytes_sent;
      CHECK(bytes == packed_mean_bytes_sent(k, n, bits));
      std::vector<double> exact(static_cast<size_t>(n));
      for (int r = 0; r < k; ++r) {
        const std::vector<double> x = batch_rows("outer", r, 0, n, 1).values();
        for (size_t i = 0; i < exact.size(); ++i) exact[i] += (1 + r) * x[i] / (k * (k + 1) / 2.0);
      }
      for (const std::vector<double>& mean : means) {
        CHECK(mean == means[0]);
        CHECK(largest_gap(mean, exact) <=
              4.0 / (bits == 8 ? 127 : 7));  // two roundings of 4 at most
      }
    }
}

TEST_CASE("error feedback: what rounding takes off arrives in later rounds") {
  // Worker 0 always sends 1 and 0.03; 4 bits round 0.03 to nothing beside 1.
  const auto sum = [](bool feedback) {
    double total = 0;
    run_ranks(2, [&](Communicator& world) {
      Lost lost;
      if (feedback) lost = {Tensor::zeros({4}), Tensor::zeros({2})};
      for (int round = 0; round < 50; ++round) {
        Tensor x = Tensor::from<float>({1, 0.03f, 1, 0.03f}, {4});
        world.collective("mean", [&](Channel& c) { quantised_mean(c, x, 1, 4, lost); });
        if (world.rank() == 0) total += x.item({1});
      }
    });
    return total;
  };
  CHECK(sum(false) == 0);
  CHECK(std::abs(sum(true) - 50 * 0.03) <= 0.2);  // to within one code of the last rounds
}

TEST_CASE("workers share the batch, each row once, and their weights are those of their rows") {
  for (const int k : worlds)
    for (const int64_t batch : {8, 13}) {
      int64_t next = 0;
      double weights = 0;
      for (int worker = 0; worker < k; ++worker) {
        const WorkerShare share = worker_share(batch, k, worker);
        CHECK(share.begin == next);
        next = share.end;
        weights += share.weight;
        CHECK(share.weight ==
              static_cast<double>((share.end - share.begin) * k) / static_cast<double>(batch));
      }
      CHECK(next == batch);
      CHECK(std::abs(weights - k) <= 1e-12);
    }
  CHECK(worker_share(7, 1, 0).weight == 1);
}

TEST_CASE("fragments take turns, evenly, the last at the end of a round") {
  const auto turns = [](int64_t inner, int fragments) {
    std::string text;
    for (int64_t step = 1; step <= 2 * inner; ++step) {
      const int due = fragment_due(step, inner, fragments);
      text += due < 0 ? '.' : static_cast<char>('0' + due);
    }
    return text;
  };
  CHECK(turns(4, 1) == "...0...0");
  CHECK(turns(4, 2) == ".0.1.0.1");
  CHECK(turns(7, 3) == ".0.1..2.0.1..2");
  CHECK(turns(3, 3) == "012012");
  for (int64_t inner = 1; inner <= 20; ++inner)
    for (int fragments = 1; fragments <= inner; ++fragments) {
      std::vector<int> seen(static_cast<size_t>(fragments));
      for (int64_t step = 5 * inner + 1; step <= 6 * inner; ++step)
        if (const int due = fragment_due(step, inner, fragments); due >= 0)
          ++seen[static_cast<size_t>(due)];
      CHECK(seen == std::vector<int>(static_cast<size_t>(fragments), 1));
    }
}

TEST_CASE("a mean that is late moves the weights when it comes, and keeps what training has done") {
  // SGD with a gradient of 1 in each step: w = -1, -2, ... With H = 4, overlap 2, keep 0.5 the mean
  // of -4 arrives after step 6: w = 0.5 (-6) + 0.5 (-4).
  run_ranks(2, [](Communicator& world) {
    const ParameterPtr w = make_parameter("w", {1, 1}, false, zeros(), 0, DType::f64);
    w->gradient().fill(1);
    Sgd sgd({w});
    Diloco diloco(sgd, world,
                  {.inner = 4, .learning_rate = 1, .momentum = 0, .overlap = 2, .keep = 0.5});
    std::vector<double> seen;
    for (int step = 0; step < 8; ++step) {
      sgd.step(1);
      diloco.after_step();
      seen.push_back(w->value.item({0}));
    }
    diloco.synchronise();
    CHECK(seen == std::vector<double>{-1, -2, -3, -4, -5, -5, -6, -7});
  });
}

TEST_CASE(
    "a worker that vanishes for a round and returns: nobody waits for it, and it catches up") {
  for (const int k : {2, 3, 4, 8})
    for (const int bits : {0, 8}) {
      std::vector<std::vector<double>> out(static_cast<size_t>(k)), met = out;
      run_ranks(k, [&](Communicator& world) {
        Worker<AdamW> worker(world);
        const bool vanishes = world.rank() == k - 1;
        Communicator others = world.split(vanishes ? -1 : 0, world.rank());
        Diloco diloco(worker.inner, world, {.inner = 2, .bits = bits});
        for (int64_t round = 0; round < 4; ++round) {
          const bool away = vanishes && round == 1;
          if (round == 1 && !vanishes) diloco.meet(others, 0);
          if (round == 2) {
            diloco.meet(world, 0);
            met[static_cast<size_t>(world.rank())] = weights_of(worker.all);
          }
          for (int64_t step = 2 * round; step < 2 * round + 2 && !away; ++step) {
            worker.step(step);
            diloco.after_step();
          }
        }
        CHECK(diloco.steps() == 8);
        out[static_cast<size_t>(world.rank())] = weights_of(worker.all);
      });
      for (const std::vector<double>& each : met) CHECK(each == met[0]);  // before it trains again
      for (const std::vector<double>& each : out) CHECK(each == out[0]);
    }
}

TEST_CASE("while one is away, the round is that of the others") {
  const int k = 3;
  std::vector<double> with, without;
  run_ranks(k, [&](Communicator& world) {
    Worker<Sgd> worker(world);
    Communicator others = world.split(world.rank() == 2 ? -1 : 0, world.rank());
    if (world.rank() == 2) return;
    Diloco diloco(worker.inner, others, {.inner = 2});
    for (int64_t step = 0; step < 4; ++step) worker.step(step), diloco.after_step();
    if (world.rank() == 0) without = weights_of(worker.all);
  });
  run_ranks(k, [&](Communicator& world) {
    Worker<Sgd> worker(world);
    Diloco diloco(worker.inner, world, {.inner = 2});
    Communicator others = world.split(world.rank() == 2 ? -1 : 0, world.rank());
    if (world.rank() == 2) return;
    diloco.meet(others, 0);
    for (int64_t step = 0; step < 4; ++step) worker.step(step), diloco.after_step();
    if (world.rank() == 0) with = weights_of(worker.all);
  });
  CHECK(with == without);
}

TEST_CASE("while one is away the others count by their tokens, and it begins again from theirs") {
  // Plain means of SGD, H = 1, 13 rows: workers 0, 1 and 2 have 5, 4 and 4. Worker 1 is away in the
  // second of three steps.
  constexpr int k = 3;
  std::vector<std::vector<double>> out(k), first(k), met(k);
  run_ranks(k, [&](Communicator& world) {
    const auto rank = static_cast<size_t>(world.rank());
    const bool away = rank == 1;
    Worker<Sgd> worker(world);
    Diloco diloco(worker.inner, world, plain(1));
    worker.step(0), diloco.after_step(worker.mine.weight);
    Communicator others = world.split(away ? -1 : 0, world.rank());
    if (!away) {
      diloco.meet(others, 0);
      worker.step(1);
      first[rank] = weights_of(worker.all);
      diloco.after_step(worker.mine.weight);
      out[rank] = weights_of(worker.all);
    }
    diloco.meet(world, 0);
    met[rank] = weights_of(worker.all);
  });
  const double a = 5, b = 4;
  for (size_t i = 0; i < out[0].size(); ++i)
    CHECK(std::abs(out[0][i] - (a * first[0][i] + b * first[2][i]) / (a + b)) <= 1e-15);
  CHECK(out[2] == out[0]);
  for (const std::vector<double>& each : met) CHECK(each == out[0]);
}

TEST_CASE("a new process joins with the weights and the momentum of one that was there") {
  std::vector<std::vector<double>> weights(3), momentum(3);
  run_ranks(3, [&](Communicator& world) {  // rank 0 is new
    const auto rank = static_cast<size_t>(world.rank());
    Communicator others = world.split(rank == 0 ? -1 : 0, world.rank());
    Worker<Sgd> worker(world, 1 + rank);
    std::optional<Diloco> diloco;
    if (rank > 0) {
      diloco.emplace(worker.inner, others, DilocoOptions{.inner = 1});
      worker.step(0), diloco->after_step();
      diloco->meet(world, 1);
    } else {
      diloco.emplace(worker.inner, world, DilocoOptions{.inner = 1}, 1);
    }
    weights[rank] = weights_of(worker.all);
    momentum[rank] = diloco->fragments()[0].momentum.values();
    CHECK(diloco->steps() == 1);
    CHECK(diloco->means() == 1);
  });
  CHECK(weights[0] == weights[1]);
  CHECK(momentum[0] == momentum[1]);
  CHECK(momentum[2] == momentum[1]);
}

TEST_CASE("bf16 weights: the f32 masters are averaged, and the weights follow") {
  run_ranks(2, [](Communicator& world) {
    const ParameterPtr w = make_parameter("w", {1, 1}, false, ones(), 0, DType::bf16);
    w->gradient().fill(world.rank() == 0 ? 1e-4 : 3e-4);
    Sgd sgd({w});
    Diloco diloco(sgd, world, {.inner = 5, .learning_rate = 1, .momentum = 0});
    for (int step = 0; step < 5; ++step) sgd.step(1), diloco.after_step();
    CHECK(std::abs(sgd.slots()[0].master.item({0}) - (1 - 5 * 2e-4)) <= 1e-6);
    CHECK(w->value.item({0}) == 1);  // 0.999, rounded to 8 bits
    w->grad.fill(world.rank() == 0 ? 0.1 : 0.3);
    for (int step = 0; step < 5; ++step) sgd.step(1), diloco.after_step();
    CHECK(std::abs(w->value.item({0}) - (0.999 - 5 * 0.2)) <= 1e-5);  // not its own 0.5, or -0.5
  });
}

TEST_CASE("wrong options are refused, with what works") {
  run_ranks(1, [](Communicator& world) {
    Worker<Sgd> worker(world);
    const auto message = [&](const DilocoOptions& options) {
      return message_of([&] { Diloco(worker.inner, world, options); });
    };
    CHECK(contains(message({.inner = 0}), "0 inner steps"));
    CHECK(contains(message({.inner = 4, .fragments = 5}), "5 fragments of 4 inner steps"));
    CHECK(contains(message({.inner = 50, .fragments = 9}), "9 fragments of 5 weights"));
    CHECK(contains(message({.inner = 4, .overlap = 4}), "give 0 to 3"));
    CHECK(contains(message({.learning_rate = std::nan("")}), "outer rate of nan"));
    for (const double other : {1e300, 1e-320, 0.0})
      CHECK(contains(message({.learning_rate = other}), "above 0 and finite"));
    CHECK(contains(message({.momentum = 1}), "a momentum of 1"));
    CHECK(contains(message({.bits = 3}), "of 3 bits"));
    Diloco late(worker.inner, world, {.inner = 4, .overlap = 2});
    for (int i = 0; i < 4; ++i) late.after_step();
    CHECK(contains(message_of([&] { late.meet(world, 0); }), "call synchronise()"));
    late.synchronise();
  });
}
