// The graded cases of exercise 14. Memory and traffic are read from the ledger: a solution in which
// every rank steps everything computes the same weights, and does not pass.
#include <atomic>
#include <numeric>

#include "course/cases/graded_ranks.hpp"
#include "interface.hpp"
#include "yotta/nn/adamw.hpp"

using namespace yotta;
using exercise::expect;
using exercise::require;
using exercise::run;
using exercise::solution;

namespace {

using Numbers = std::vector<double>;

// Three parameters of 8, 4 and 12 numbers, of value 0 to 23; 1, 2 and 4 ranks divide each. They
// have a bucket each, or one together, in which four parts of six numbers cut through them:
//     [         p2           ][  p1  ][      p0      ]
//     └─ rank 0 ─┘└─ rank 1 ─┘└─ rank 2 ─┘└─ rank 3 ─┘
constexpr int64_t sizes[] = {8, 4, 12};
constexpr int64_t numbers = 24;
constexpr int64_t bucket_each = 1, one_bucket = 1000;  // bytes
const char* how(int64_t bucket_bytes) {
  return bucket_bytes == bucket_each ? "a bucket for each parameter" : "one bucket";
}

std::vector<ParameterPtr> make_parameters() {
  std::vector<ParameterPtr> made;
  double next = 0;
  for (const int64_t size : sizes) {
    made.push_back(make_parameter("p" + std::to_string(made.size()), {1, size}, false, zeros(), 0,
                                  DType::f32));
    made.back()->uses = 1;
    for (float& value : made.back()->value.span<float>()) value = static_cast<float>(next++);
  }
  return made;
}

// The gradient of number i on a rank, in a microbatch.
double local_gradient(int rank, int microbatch, int64_t i) {
  return static_cast<double>((rank + 1) * 100 + 10 * microbatch + i +
                             exercise::variant("gradient", 0, 1, 500));
}
void backward_one(const std::vector<ParameterPtr>& parameters, size_t p, int rank, int microbatch) {
  int64_t i = std::accumulate(sizes, sizes + p, int64_t{0});
  for (float& g : parameters[p]->gradient().span<float>())
    g += static_cast<float>(local_gradient(rank, microbatch, i++));
  parameters[p]->mark_grad_ready(0);
}
void backward(const std::vector<ParameterPtr>& parameters, int rank, int microbatch) {
  for (size_t p = parameters.size(); p-- > 0;) backward_one(parameters, p, rank, microbatch);
}

Numbers values_of(const std::vector<ParameterPtr>& parameters) {
  Numbers all;
  for (const ParameterPtr& each : parameters)
    for (const double value : each->value.values()) all.push_back(value);
  return all;
}

// What each rank's shards hold, put where it belongs: bucket by bucket, the last parameter first.
Numbers put_together(const std::vector<Numbers>& by_rank, int64_t bucket_bytes) {
  std::vector<std::vector<size_t>> buckets;  // which numbers, in the order in which they lie there
  int64_t end = numbers;
  for (size_t p = std::size(sizes); p-- > 0;) {
    if (buckets.empty() || bucket_bytes == bucket_each) buckets.emplace_back();
    end -= sizes[p];
    for (int64_t i = 0; i < sizes[p]; ++i) buckets.back().push_back(static_cast<size_t>(end + i));
  }
  Numbers all(numbers);
  std::vector<size_t> next(by_rank.size());
  for (const std::vector<size_t>& bucket : buckets)
    for (size_t i = 0; i < bucket.size(); ++i) {
      const size_t r = i / (bucket.size() / by_rank.size());
      if (next[r] < by_rank[r].size()) all[bucket[i]] = by_rank[r][next[r]++];
    }
  return all;
}

// By parameter, as they lie in one bucket: the last parameter first.
Numbers as_in_one_bucket(const Numbers& by_parameter) {
  Numbers all;
  int64_t end = numbers;
  for (size_t p = std::size(sizes); p-- > 0; end -= sizes[p])
    all.insert(all.end(), by_parameter.begin() + end - sizes[p], by_parameter.begin() + end);
  return all;
}

// body(world) checks what it grades and returns its Zero, which has something under way. What would
// end it, finish(), is of a later task, and may be wrong, or not done yet.
template <class Body>
void run_before_finish(int p, Body body) {
  std::atomic<bool> checked = false;
  try {
    run(p, [&](Communicator& world) {
      const std::unique_ptr<exercise::AnyZero> zero = body(world);
      world.barrier();
      checked = true;
      zero->finish();
    });
  } catch (const Error&) {
    if (!checked) throw;
  }
}

// Does body() get as far as a task that is not done yet?
template <class Body>
bool reaches(const char* task, Body body) {
  try {
    body();
  } catch (const NotDone& error) {
    if (std::string(error.what()).find(task) == std::string::npos) throw;
    return true;
  }
  return false;
}

int64_t state_bytes() {
  const MemoryCount& memory = *context().ledger.memory();
  return memory.live(MemoryKind::parameters) + memory.live(MemoryKind::gradients) +
         memory.live(MemoryKind::optimizer);
}

}  // namespace

TEST_CASE("14.1: the table of the ZeRO paper") {
  struct Bytes {
    int64_t weights, gradients, optimizer;
  };
  constexpr Bytes paper = {2, 2, 12}, all_f32 = {4, 4, 8};
  struct Cell {
    int stage;
    int64_t ranks;
    double gigabytes;
    Bytes bytes = paper;
  };
  for (const auto& [stage, ranks, gigabytes, bytes] :
       {Cell{0, 4, 120}, Cell{1, 4, 52.5}, Cell{2, 4, 41.25}, Cell{3, 4, 30}, Cell{1, 64, 31.40625},
        Cell{2, 64, 16.640625}, Cell{3, 64, 1.875}, Cell{3, 1, 120}, Cell{1, 4, 75, all_f32},
        Cell{2, 4, 52.5, all_f32}}) {
    const double held =
        static_cast<double>(solution.bytes_held(stage, ranks, 7'500'000'000, bytes.weights,
                                                bytes.gradients, bytes.optimizer)) /
        1e9;
    expect(held == gigabytes,
           fmt::format(
               "7.5 billion parameters of {} + {} + {} bytes (weights, gradients, optimizer "
               "state), stage {} on {} ranks: {} GB held, {} right. Stage 1 cuts optimizer "
               "state, 2 gradients as well, 3 weights as well; what is not cut every rank "
               "holds whole",
               bytes.weights, bytes.gradients, bytes.optimizer, stage, ranks, held, gigabytes));
  }
}

TEST_CASE(
    "14.2: the shards of all ranks are the model, each number once, and views of the weights") {
  for (const int64_t bucket_bytes : {bucket_each, one_bucket})
    for (const int p : {4, 1, 2}) {
      std::vector<Numbers> parts(static_cast<size_t>(p));
      run(p, [&](Communicator& world) {
        const std::vector<ParameterPtr> parameters = make_parameters();
        const auto zero = solution.make_zero(parameters, world, 1, bucket_bytes);
        parts[static_cast<size_t>(world.rank())] = values_of(zero->shards());
        for (const ParameterPtr& each : zero->shards()) each->value.fill(-1);  // a step
        int64_t stepped = 0;
        for (const double value : values_of(parameters)) stepped += value == -1;
        require(stepped == numbers / p || p == 1,
                fmt::format("a step of rank {}'s shards changed {} of its {} weights, where {} are "
                            "its part: `mine` is a view, bucket.weights.rows(begin, end)",
                            world.rank(), stepped, numbers, numbers / p));
      });
      Numbers expected(numbers);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<double>(i);
      Clues clues;
      clues.what = fmt::format("the shards of {} ranks, {}, put together", p, how(bucket_bytes));
      clues.ranks = p;
      expect(compare(put_together(parts, bucket_bytes), expected, 0, clues));
    }
}

TEST_CASE("14.2: a part cuts through parameters, and its pieces say which they are of") {
  run(4, [](Communicator& world) {
    const auto zero = solution.make_zero(make_parameters(), world, 1, one_bucket);
    const std::string right[] = {" p2[0, 6)", " p2[6, 12)", " p1[0, 4) p0[0, 2)", " p0[2, 8)"};
    const std::string& mine = right[static_cast<size_t>(world.rank())];
    std::string got;
    for (const ParameterShard& shard : zero->parameter_shards())
      got += fmt::format(" {}[{}, {})", shard.parameter->name, shard.first,
                         shard.first + shard.parameter->value.numel());
    require(got == mine,
            fmt::format("rank {} of 4: the shards in its part of p2, p1, p0 are{}, and you have{}. "
                        "cut_shards wants to know at which number of the bucket the part begins",
                        world.rank(), mine, got.empty() ? " none" : got));
  });
  CHECK(true);
}

TEST_CASE("14.2: a rank holds optimizer state for its part alone") {
  run(4, [](Communicator& world) {
    const std::vector<ParameterPtr> parameters = make_parameters();
    const auto zero = solution.make_zero(parameters, world, 1, bucket_each);
    const AdamW optimizer(zero->shards());
    require(
        state_bytes() == 10 * numbers,
        fmt::format("{}N bytes held, 10N allowed: stage 1 on 4 ranks in f32 holds 4N of weights, "
                    "4N of gradients and a quarter of AdamW's 8N",
                    state_bytes() / numbers));
  });
  CHECK(true);
}

TEST_CASE("14.2: stage 1 keeps room for all gradients, stage 2 for this rank's part of their sum") {
  for (const int stage : {1, 2})
    run(4, [&](Communicator& world) {
      const auto zero = solution.make_zero(make_parameters(), world, stage, one_bucket);
      const int64_t held = context().ledger.memory()->live(MemoryKind::gradients);
      const int64_t right = stage == 1 ? 4 * numbers : numbers;
      require(
          held == right,
          fmt::format("stage {} on 4 ranks: {} bytes of gradients held, {} right. Stage 1 keeps "
                      "`gradients` (n numbers), stage 2 `sum` (n/p), as MemoryKind::gradients",
                      stage, held, right));
    });
  CHECK(true);
}

TEST_CASE("14.3: a bucket adds up its parameters' gradients, and frees theirs") {
  run(2, [](Communicator& world) {
    const std::vector<ParameterPtr> parameters = make_parameters();
    const auto zero = solution.make_zero(parameters, world, 1, one_bucket);
    Numbers expected(numbers), last(numbers);
    for (int microbatch = 0; microbatch < 2; ++microbatch) {
      backward(parameters, world.rank(), microbatch);
      for (const ParameterPtr& each : parameters)
        require(!each->grad.defined(),
                fmt::format("{} still has its own gradient after it was added to the bucket's: "
                            "set it to {{}}, or each is held twice",
                            each->name));
      for (int64_t i = 0; i < numbers; ++i) {
        last[static_cast<size_t>(i)] = local_gradient(world.rank(), microbatch, i);
        expected[static_cast<size_t>(i)] += last[static_cast<size_t>(i)];
      }
    }
    Clues clues;
    clues.what = "the gradients in the bucket of p2, p1 and p0 after 2 microbatches";
    clues.suspects = {
        {"the last microbatch's alone: add to what is there, do not copy", as_in_one_bucket(last)}};
    const Verdict verdict =
        compare(zero->buckets().at(0).gradients.values(), as_in_one_bucket(expected), 1e-6, clues);
    require(verdict.equal, verdict.text);
  });
  CHECK(true);
}

TEST_CASE("14.3: stage 2 sends a bucket when its last gradient is there") {
  std::atomic<bool> sent = false;
  const bool next_task = reaches("14.4", [&] {
    run_before_finish(2, [&](Communicator& world) {
      const std::vector<ParameterPtr> parameters = make_parameters();
      auto zero = solution.make_zero(parameters, world, 2, one_bucket);
      backward(parameters, world.rank(), 0);
      world.barrier();
      if (context().ledger.total_traffic().messages_sent > 0 &&
          zero->buckets()[0].arriving.defined())
        sent = true;
      return zero;
    });
  });
  expect(
      next_task || sent,
      "all gradients of a bucket are there, and stage 2 has not sent it: tell the bucket of each "
      "gradient, sums_.on_gradient_ready(...), which launches it at the last");
}

TEST_CASE("14.3: the last gradient is in the bucket before stage 2 sends it") {
  reaches("14.4", [] {
    run_before_finish(1, [](Communicator& world) {
      const std::vector<ParameterPtr> parameters = make_parameters();
      auto zero = solution.make_zero(parameters, world, 2, one_bucket);
      backward(parameters, 0, 0);
      const Tensor arriving = zero->buckets()[0].arriving;
      if (!arriving.defined() || arriving.numel() != numbers) return zero;  // that is 14.4's
      Numbers expected(numbers);
      for (int64_t i = 0; i < numbers; ++i)
        expected[static_cast<size_t>(i)] = local_gradient(0, 0, i);
      require(arriving.values() == as_in_one_bucket(expected),
              "stage 2 on 1 rank: what is sent lacks the last gradient. on_gradient_ready(...) "
              "sends the bucket at the last one, so say it when the gradient is in its place");
      return zero;
    });
  });
  CHECK(true);
}

TEST_CASE("14.4: stage 2 sends while backward goes on") {
  // Rank 1 begins only after it has heard from rank 0, and rank 0 tells it after its bucket has
  // left.
  std::atomic<bool> told = false;
  try {
    run_before_finish(2, [&](Communicator& world) {
      const std::vector<ParameterPtr> parameters = make_parameters();
      auto zero = solution.make_zero(parameters, world, 2, one_bucket);
      Numbers token = {1};
      if (world.rank() == 1) world.recv(token, 0);
      backward(parameters, world.rank(), 0);
      if (world.rank() == 0) {
        told = true;
        world.send(token, 1);
      }
      return zero;
    });
  } catch (const Deadlock&) {
    if (told) throw;
    FAIL(
        "nothing overlapped: launch() waits for the reduce_scatter that it starts, and backward "
        "stands still meanwhile. Start it with reduce_scatter_async and return the Work: settle() "
        "waits for it.");
  }
  CHECK(true);
}

TEST_CASE("14.4: a bucket's gradients move N (p-1)/p elements, half of an all_reduce") {
  run_before_finish(4, [](Communicator& world) {
    const std::vector<ParameterPtr> parameters = make_parameters();
    auto zero = solution.make_zero(parameters, world, 2, one_bucket);
    backward(parameters, world.rank(), 0);
    world.barrier();
    const int64_t N = numbers / 4 * 3;  // times (p-1)/p
    const int64_t moved = context().ledger.total_traffic().bytes_sent / 4;
    require(
        moved == N,
        fmt::format("{}N moved, not N (times (p-1)/p): a rank that steps a part needs only that "
                    "part of the sum. A reduce_scatter moves N, an all_reduce 2N",
                    static_cast<double>(moved) / static_cast<double>(N)));
    const Tensor arriving = zero->buckets()[0].arriving;
    require(arriving.defined() && arriving.numel() == numbers / 4,
            fmt::format("`arriving` has {} numbers, and a rank's part has {}",
                        arriving.defined() ? arriving.numel() : 0, numbers / 4));
    return zero;
  });
  CHECK(true);
}

TEST_CASE("14.4: one bucket is on its way at a time") {
  reaches("14.5", [] {
    run_before_finish(2, [&](Communicator& world) {
      const std::vector<ParameterPtr> parameters = make_parameters();
      auto zero = solution.make_zero(parameters, world, 2, bucket_each);
      backward(parameters, world.rank(), 0);
      require(
          !zero->buckets()[0].arriving.defined(),
          "bucket 2 has left, and bucket 0 is not settled: settle(i - 1) before bucket i leaves, "
          "or the buffers of all buckets are held until the end");
      return zero;
    });
  });
  CHECK(true);
}

TEST_CASE("14.4: a bucket without gradients leaves too") {
  const std::string text = exercise::error_of([] {
    reaches("14.5", [] {
      run(2, [](Communicator& world) {
        solution.make_zero(make_parameters(), world, 2, one_bucket)->finish();
      });
    });
  });
  expect(text.empty(),
         "no gradient has come into the bucket on this rank, and its reduction failed; others may "
         "have some, so it leaves: open(bucket) first, which makes zeros if there is nothing. It "
         "said: " +
             text);
}

TEST_CASE("14.5: the shards' gradients are the sum over ranks and microbatches") {
  const auto trial = [](int stage, int64_t bucket_bytes, int p) {
    std::vector<Numbers> parts(static_cast<size_t>(p));
    run(p, [&](Communicator& world) {
      const std::vector<ParameterPtr> parameters = make_parameters();
      const auto zero = solution.make_zero(parameters, world, stage, bucket_bytes);
      for (int microbatch = 0; microbatch < 2; ++microbatch) {
        zero->flush();
        backward(parameters, world.rank(), microbatch);
      }
      zero->finish();
      for (const ParameterPtr& each : zero->shards())
        for (const double g : each->grad.values())
          parts[static_cast<size_t>(world.rank())].push_back(g);
    });
    Clues clues;
    clues.what = fmt::format("gradients of stage {} on {} ranks, {}, put together", stage, p,
                             how(bucket_bytes));
    clues.ranks = p;
    Numbers expected(numbers), last(numbers);
    for (int r = 0; r < p; ++r) {
      clues.parts.emplace_back(expected.size());
      for (int m = 0; m < 2; ++m)
        for (int64_t i = 0; i < numbers; ++i) {
          clues.parts.back()[static_cast<size_t>(i)] += local_gradient(r, m, i);
          expected[static_cast<size_t>(i)] += local_gradient(r, m, i);
          if (m == 1) last[static_cast<size_t>(i)] += local_gradient(r, m, i);
        }
    }
    clues.suspects = {{"the last microbatch's alone: add what arrives to `sum`", last}};
    expect(compare(put_together(parts, bucket_bytes), expected, 1e-6, clues));
  };
  for (const int stage : {2, 1})
    for (const int64_t bucket_bytes : {bucket_each, one_bucket})
      for (const int p : {4, 1, 2}) trial(stage, bucket_bytes, p);
}

TEST_CASE("14.5: after finish a rank holds what its stage says") {
  for (const int stage : {1, 2})
    run(4, [&](Communicator& world) {
      const std::vector<ParameterPtr> parameters = make_parameters();
      const auto zero = solution.make_zero(parameters, world, stage, one_bucket);
      backward(parameters, world.rank(), 0);
      zero->finish();
      const exercise::BucketView bucket = zero->buckets()[0];
      require(
          !bucket.arriving.defined(),
          "`arriving` is still held after finish(): set it to {} when its numbers are in `sum`");
      require(
          bucket.gradients.defined() == (stage == 1),
          fmt::format("stage {}: the gradients of the whole bucket are {} after finish(). Stage 2 "
                      "frees them once they have been summed, stage 1 keeps them",
                      stage, stage == 1 ? "gone" : "still held"));
    });
  CHECK(true);
}

TEST_CASE("14.6: after gather every rank has everyone's new weights") {
  const auto trial = [](int stage, int64_t bucket_bytes, int p) {
    run(p, [&](Communicator& world) {
      const std::vector<ParameterPtr> parameters = make_parameters();
      const auto zero = solution.make_zero(parameters, world, stage, bucket_bytes);
      const Numbers before = values_of(parameters);
      backward(parameters, world.rank(), 0);
      zero->finish();
      for (const ParameterPtr& each : zero->shards())
        for (float& value : each->value.span<float>()) value += 1000;  // a step
      const int64_t held = context().ledger.memory()->live(MemoryKind::parameters);
      zero->gather();
      const int64_t now = context().ledger.memory()->live(MemoryKind::parameters);
      require(now == held, fmt::format("{} bytes of weights are held after gather(), and {} were "
                                       "before: gather into the bucket's own `weights`",
                                       now, held));
      const Numbers after = values_of(parameters);
      for (size_t i = 0; i < after.size(); ++i) {
        require(after[i] != before[i],
                fmt::format("weight {} on rank {} of {} is as before the step, though the rank "
                            "that steps it has stepped it: the new weights were not gathered",
                            i, world.rank(), p));
        require(after[i] == before[i] + 1000,
                fmt::format("weight {} on rank {} of {} is {}, expected {}", i, world.rank(), p,
                            after[i], before[i] + 1000));
      }
    });
  };
  for (const int stage : {1, 2})
    for (const int64_t bucket_bytes : {bucket_each, one_bucket})
      for (const int p : {4, 1, 2}) trial(stage, bucket_bytes, p);
  CHECK(true);
}

TEST_CASE("14.6: the gradients of the next step begin at zero") {
  for (const int stage : {1, 2})
    run(2, [&](Communicator& world) {
      const std::vector<ParameterPtr> parameters = make_parameters();
      const auto zero = solution.make_zero(parameters, world, stage, one_bucket);
      std::vector<Numbers> steps;
      for (int step = 0; step < 2; ++step) {
        backward(parameters, world.rank(), 0);
        zero->finish();
        steps.emplace_back();
        for (const ParameterPtr& each : zero->shards())
          for (const double g : each->grad.values()) steps.back().push_back(g);
        zero->gather();
        for (const ParameterPtr& each : zero->shards())
          require(
              !each->grad.defined(),
              "a shard still has its gradient after gather(), and with it the memory of the sum");
      }
      require(
          steps[0] == steps[1],
          fmt::format("stage {}: two equal steps, and the second one's gradients are {} where the "
                      "first one's are {}: gather() leaves {} at zero for the next step",
                      stage, steps[1][0], steps[0][0], stage == 1 ? "`gradients`" : "a new `sum`"));
    });
  CHECK(true);
}
