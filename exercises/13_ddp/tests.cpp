// The graded cases of exercise 13. Gradients are compared, not weights after a step of Adam: Adam
// divides by the gradient's size, so a gradient four times too large would not show.
#include <atomic>

#include "course/cases/graded_ranks.hpp"
#include "interface.hpp"
#include "yotta/core/random.hpp"

using namespace yotta;
using exercise::AnyDdp;
using exercise::expect;
using exercise::ParameterPtrs;
using exercise::run;
using exercise::solution;

namespace {

// Six parameters, and buckets of up to six numbers, the last parameter first:
//     layer        0  1  2  3  4  5       bucket 0   bucket 1   bucket 2   bucket 3
//     numbers      1  5  2  4  6  1       5          4          3, 2       1, 0
// Layer 4 is a matrix (2, 3), the others are vectors.
constexpr int64_t sizes[] = {1, 5, 2, 4, 6, 1};
constexpr size_t numbers = 19;
constexpr int64_t bucket_bytes = 6 * sizeof(double);

// The first `in_f32` of them in f32, the others in f64.
ParameterPtrs make_parameters(int rank, size_t in_f32 = 0) {
  ParameterPtrs made;
  for (size_t i = 0; i < std::size(sizes); ++i) {
    const bool is_matrix = i == 4;
    const ShardRange part = is_matrix ? ShardRange{2, 3} : ShardRange{1, sizes[i]};
    const std::string name = "layer " + std::to_string(i);
    made.push_back(make_parameter(name, part, is_matrix, normal(1), static_cast<uint64_t>(rank),
                                  i < in_f32 ? DType::f32 : DType::f64));
    made.back()->uses = 1;
  }
  return made;
}

// The gradient that a microbatch gives on one rank: its i-th number, over all parameters in order.
Numbers local_gradient(int rank, int microbatch = 0) {
  const Random random(exercise::seed(13), fmt::format("rank {} microbatch {}", rank, microbatch));
  Numbers gradient;
  for (size_t i = 0; i < numbers; ++i) gradient.push_back(random.normal(i));
  return gradient;
}

// Adds a microbatch's gradient to parameter `index`, and reports it final.
void backward_one(const ParameterPtrs& parameters, size_t index, const Numbers& gradient) {
  size_t begin = 0;
  for (size_t i = 0; i < index; ++i) begin += static_cast<size_t>(sizes[i]);
  const std::span<double> grad = parameters[index]->gradient().span<double>();
  for (size_t i = 0; i < grad.size(); ++i) grad[i] += gradient[begin + i];
  parameters[index]->mark_grad_ready(0);
}
void backward(const ParameterPtrs& parameters, const Numbers& gradient) {
  for (size_t i = parameters.size(); i-- > 0;) backward_one(parameters, i, gradient);
}

Numbers all_gradients(const ParameterPtrs& parameters) {
  Numbers all;
  for (const ParameterPtr& each : parameters)
    for (const double value : each->gradient().values()) all.push_back(value);
  return all;
}

const char* const not_reduced = "this rank's own gradient: it was not reduced";

// Runs body(world, parameters) on p ranks and compares the gradients that each is left with.
template <class Body>
void expect_gradients(int p, ReduceOp op, int microbatches, Body body) {
  std::vector<Numbers> left(static_cast<size_t>(p));
  run(p, [&](Communicator& world) {
    const ParameterPtrs parameters = make_parameters(world.rank());
    body(world, parameters);
    left[static_cast<size_t>(world.rank())] = all_gradients(parameters);
  });
  Clues clues;
  clues.ranks = p;
  Numbers expected(left[0].size());
  for (int r = 0; r < p; ++r) {
    clues.parts.emplace_back(expected.size());
    for (int m = 0; m < microbatches; ++m) {
      const Numbers gradient = local_gradient(r, m);
      for (size_t i = 0; i < expected.size(); ++i) {
        clues.parts.back()[i] += gradient[i];
        expected[i] += op == ReduceOp::mean ? gradient[i] / p : gradient[i];
      }
    }
  }
  for (int r = 0; r < p; ++r) {
    clues.what = fmt::format("{} of the gradients, rank {} of {}", name(op), r, p);
    clues.suspects = {{not_reduced, clues.parts[static_cast<size_t>(r)]}};
    expect(compare(left[static_cast<size_t>(r)], expected, 1e-12, clues));
  }
}

std::unique_ptr<AnyDdp> make_ddp(const ParameterPtrs& parameters, Communicator& world,
                                 bool overlap = true, ReduceOp op = ReduceOp::mean) {
  return solution.make_ddp(parameters, world, bucket_bytes, op, overlap);
}

// Runs body(world, parameters, ddp) on two ranks, and finish() after it. That is exercise 13.6,
// which may be wrong or not begun: once all ranks have made their checks, what it does is not
// looked at here.
template <class Body>
void run_backward(bool overlap, Body body) {
  std::atomic<bool> checked = false;
  try {
    run(2, [&](Communicator& world) {
      const ParameterPtrs parameters = make_parameters(world.rank());
      const auto ddp = make_ddp(parameters, world, overlap);
      body(world, parameters, *ddp);
      world.barrier();
      checked = true;
      ddp->finish();
    });
  } catch (const Error&) {
    if (!checked) throw;
  }
}

// A backward that sends, from the last parameter to the first: which bucket leaves when?
void backward_and_count(const ParameterPtrs& parameters, const AnyDdp& ddp, int rank,
                        const char* why_not = "") {
  const int launched[] = {4, 3, 3, 2, 2, 1};  // once the gradient of parameter 0, 1, ... 5 is final
  for (size_t i = parameters.size(); i-- > 0;) {
    backward_one(parameters, i, local_gradient(rank));
    if (ddp.launched() < launched[i])
      fail(Where::current(), "bucket {} never launched, though all its gradients are final{}",
           ddp.launched(), why_not);
    if (ddp.launched() > launched[i])
      fail(Where::current(), "bucket {} launched before all its gradients were final", launched[i]);
  }
}

// All buckets have left during backward, in the second step as in the first.
void require_overlap(const AnyDdp& ddp, int step) {
  if (step == 0 || ddp.launched() == ddp.buckets()) return;
  fail(Where::current(),
       "right, but in step {} only {} of {} buckets left during backward, and all did in step 0: "
       "`missing` says how many gradients are still to come, all of the bucket's",
       step, ddp.launched(), ddp.buckets());
}

// A whole step with Ddp, right or not, on p ranks; all microbatches but the last under no_sync.
void expect_ddp_step(int p, ReduceOp op, bool overlap, int microbatches = 1) {
  expect_gradients(p, op, microbatches, [&](Communicator& world, const ParameterPtrs& parameters) {
    const auto ddp = make_ddp(parameters, world, overlap, op);
    for (int m = 0; m < microbatches; ++m) {
      const auto quiet = m + 1 < microbatches ? ddp->no_sync() : nullptr;
      backward(parameters, local_gradient(world.rank(), m));
    }
    ddp->finish();
  });
}

}  // namespace

TEST_CASE("13.1: the ranks' shares are the batch, each row once") {
  for (const int p : exercise::ranks({1, 2, 3, 4, 5, 8}))
    for (const int64_t batch : {17, 8, 3, 0}) {
      int64_t next = 0;
      std::pair<int64_t, int64_t> before = {0, 0};
      for (int r = 0; r < p; ++r) {
        const auto share = solution.batch_shard(batch, p, r);
        const auto [begin, end] = share;
        expect(
            r == 0 || share != before || begin == end,
            fmt::format("ranks {} and {} saw identical tokens: both train on rows {} to {} of {}",
                        r - 1, r, begin, end - 1, batch));
        expect(begin == next,
               fmt::format("{} rows on {} ranks: rank {} begins with row {}, but row {} is next",
                           batch, p, r, begin, next));
        expect(end - begin >= batch / p && end - begin <= batch / p + 1,
               fmt::format("{} rows on {} ranks: rank {} takes {}", batch, p, r, end - begin));
        next = end;
        before = share;
      }
      expect(next == batch, fmt::format("{} rows on {} ranks: nobody trains on the last {}", batch,
                                        p, batch - next));
    }
}

TEST_CASE("13.2: every rank ends with the mean or the sum of all ranks' gradients") {
  for (const ReduceOp op : {ReduceOp::mean, ReduceOp::sum})
    for (const int p : exercise::ranks({4, 1, 2, 3}))
      expect_gradients(p, op, 1, [&](Communicator& world, const ParameterPtrs& parameters) {
        backward(parameters, local_gradient(world.rank()));
        solution.reduce_gradients(parameters, world, op);
      });
}

TEST_CASE("13.2: a parameter that one rank did not use is reduced all the same") {
  const int p = 3;
  std::vector<Numbers> left(p);
  const auto unused_on_rank_1 = [&](Communicator& world) {
    const ParameterPtrs parameters = make_parameters(world.rank());
    for (size_t i = parameters.size(); i-- > 0;)
      if (i != 4 || world.rank() != 1) backward_one(parameters, i, local_gradient(world.rank()));
    solution.reduce_gradients(parameters, world, ReduceOp::sum);
    left[static_cast<size_t>(world.rank())] = all_gradients(parameters);
  };
  const std::string text = exercise::error_of([&] { run(p, unused_on_rank_1); });
  expect(text.empty(),
         "rank 1 has not used layer 4, so that it has no gradient there yet, and the others wait "
         "for it: every rank reduces every parameter, and gradient() makes the zeros that it adds"
         "\n    " +
             text);
  Numbers expected(numbers);
  for (int r = 0; r < p; ++r)
    for (size_t i = 0; i < numbers; ++i)
      if (r != 1 || i < 12 || i >= 18) expected[i] += local_gradient(r)[i];
  for (int r = 0; r < p; ++r) {
    Clues clues;
    clues.what = fmt::format("sum of the gradients, layer 4 unused on rank 1, on rank {}", r);
    clues.ranks = p;
    expect(compare(left[static_cast<size_t>(r)], expected, 1e-12, clues));
  }
}

TEST_CASE("13.3: buckets hold the last parameters first, up to their limit") {
  struct Plan {
    int64_t bytes;
    std::vector<std::vector<size_t>> members;  // indices of parameters
    size_t in_f32 = 0;
  };
  const std::vector<Plan> plans = {{bucket_bytes, {{5}, {4}, {3, 2}, {1, 0}}},
                                   {8 * sizeof(double), {{5, 4}, {3, 2}, {1, 0}}},
                                   {1, {{5}, {4}, {3}, {2}, {1}, {0}}},
                                   {1000, {{5, 4, 3, 2, 1, 0}}},
                                   {1000, {{5, 4, 3, 2}, {1, 0}}, 2}};
  for (const Plan& plan : plans) {
    const ParameterPtrs parameters = make_parameters(0, plan.in_f32);
    const auto buckets = solution.cut_into_buckets(parameters, plan.bytes);
    std::string wanted, got;
    for (const auto& members : plan.members) {
      wanted += "[";
      for (const size_t i : members) wanted += " " + parameters[i]->name;
      wanted += " ] ";
    }
    for (const ParameterPtrs& bucket : buckets) {
      got += "[";
      for (const ParameterPtr& each : bucket) got += " " + each->name;
      got += " ] ";
    }
    expect(wanted == got,
           fmt::format("buckets of up to {} bytes{}\n    expected {}\n    got      {}", plan.bytes,
                       plan.in_f32 == 0 ? ""
                                        : ", the gradients of layers 0 and 1 in f32, the others in "
                                          "f64: a flat tensor has one dtype, and so its bucket",
                       wanted, got));
  }
}

TEST_CASE("13.4: gradients are views into their bucket, and keep their values") {
  const ParameterPtrs parameters = make_parameters(0);
  backward(parameters, local_gradient(0));
  for (const auto& bucket : solution.make_buckets(parameters, bucket_bytes)) {
    Numbers members;
    for (const ParameterPtr& each : bucket.parameters) {
      expect(each->grad.shares_memory(bucket.flat),
             each->name + ": its gradient is not a view into the flat tensor of its bucket");
      expect(each->grad.shape() == each->value.shape(),
             fmt::format("{}: its gradient has become {}, its weight is {}: reshape the view",
                         each->name, each->grad.describe(), each->value.describe()));
      expect(each->grad.dtype() == each->value.dtype(),
             fmt::format("{}: its gradient was {}, and has become {}: make `flat` of the "
                         "gradients' dtype, or the next backward cannot add to them",
                         each->name, name(each->value.dtype()), name(each->grad.dtype())));
      for (const double value : each->grad.values()) members.push_back(value);
    }
    Clues clues;
    clues.what =
        "the flat tensor of the bucket that begins with " + bucket.parameters.front()->name;
    expect(compare(bucket.flat.values(), members, 0, clues));
  }
  Clues clues;
  clues.what = "the gradients after the move";
  expect(compare(all_gradients(parameters), local_gradient(0), 0, clues));
}

TEST_CASE("13.4: before the first backward, when there are no gradients yet") {
  const ParameterPtrs parameters = make_parameters(0);
  std::vector<exercise::BucketView> buckets;
  const std::string text =
      exercise::error_of([&] { buckets = solution.make_buckets(parameters, bucket_bytes); });
  expect(text.empty(),
         "no backward has run, so each->grad is undefined: each->gradient() makes it, zeros at "
         "first\n    " +
             text);
  for (const exercise::BucketView& bucket : buckets)
    for (const ParameterPtr& each : bucket.parameters)
      expect(each->grad.defined() && each->grad.shares_memory(bucket.flat),
             each->name +
                 " had no gradient yet, and has no view into the flat tensor now: what "
                 "backward makes later is not in the bucket. each->gradient() makes it, "
                 "zeros at first");
  backward(parameters, local_gradient(0));
  Clues clues;
  clues.what = "the gradients of the first backward";
  expect(compare(all_gradients(parameters), local_gradient(0), 0, clues));
}

TEST_CASE("13.5: a bucket leaves as soon as its last gradient is final") {
  run_backward(true, [](Communicator& world, const ParameterPtrs& parameters, AnyDdp& ddp) {
    backward_and_count(parameters, ddp, world.rank());
  });
  CHECK(true);
}

TEST_CASE("13.5: buckets leave in their order, in whichever order they become full") {
  run_backward(true, [](Communicator& world, const ParameterPtrs& parameters, AnyDdp& ddp) {
    struct Final {
      size_t layer;
      int launched;
    };
    std::string final;
    for (const auto& [layer, launched] :
         {Final{1, 0}, Final{0, 0}, Final{5, 1}, Final{3, 1}, Final{2, 1}, Final{4, 4}}) {
      backward_one(parameters, layer, local_gradient(world.rank()));
      final += fmt::format("{}{}", final.empty() ? "" : ", ", layer);
      if (ddp.launched() != launched)
        fail(Where::current(),
             "the gradients of layers {} are final, and {} of the buckets [5] [4] [3 2] [1 0] have "
             "been launched, not {}: a full bucket waits for those before it, and when the one "
             "that held it back leaves, it follows",
             final, ddp.launched(), launched);
    }
  });
  CHECK(true);
}

TEST_CASE("13.5: the callback launches and does not wait: communication overlaps backward") {
  // Rank 1 goes on only after it has heard from rank 0, and rank 0 tells it after its first
  // callback.
  bool told = false;
  try {
    run_backward(true, [&](Communicator& world, const ParameterPtrs& parameters, AnyDdp&) {
      Numbers token = {1};
      if (world.rank() == 1) world.recv(token, 0);
      backward_one(parameters, 5, local_gradient(world.rank()));
      if (world.rank() == 0) {
        told = true;
        world.send(token, 1);
      }
      for (size_t i = 5; i-- > 0;) backward_one(parameters, i, local_gradient(world.rank()));
    });
  } catch (const Deadlock&) {
    if (told) throw;
    FAIL(
        "nothing overlapped: the callback waits for the bucket that it has launched, so backward "
        "stands still meanwhile. Launch there, wait in finish().");
  }
  CHECK(true);
}

TEST_CASE("13.5: without overlap backward launches nothing") {
  run_backward(false, [](Communicator& world, const ParameterPtrs& parameters, AnyDdp& ddp) {
    backward(parameters, local_gradient(world.rank()));
    if (ddp.launched() > 0)
      fail(Where::current(),
           "overlap_ is false, and {} buckets were launched during backward: they wait "
           "until finish()",
           ddp.launched());
  });
  CHECK(true);
}

TEST_CASE("13.5: under no_sync nothing is reduced, and gradients add up") {
  run_backward(true, [](Communicator& world, const ParameterPtrs& parameters, AnyDdp& ddp) {
    Numbers sum(numbers);
    {
      const auto quiet = ddp.no_sync();
      for (int m = 0; m < 2; ++m) {
        backward(parameters, local_gradient(world.rank(), m));
        for (size_t i = 0; i < numbers; ++i) sum[i] += local_gradient(world.rank(), m)[i];
        if (ddp.launched() > 0)
          fail(
              Where::current(),
              "reduced under no_sync: {} buckets were launched, where gradients should only add up",
              ddp.launched());
      }
    }
    Clues clues;
    clues.what = fmt::format("rank {}'s gradients after two microbatches", world.rank());
    if (const Verdict verdict = compare(all_gradients(parameters), sum, 1e-12, clues); !verdict)
      fail(Where::current(), "{}", verdict.text);
    backward_and_count(parameters, ddp, world.rank(),
                       ". Two microbatches went before, under no_sync: was `missing` counted down "
                       "there?");
  });
  CHECK(true);
}

TEST_CASE("13.6: after finish the gradients are reduced, overlapped or not") {
  for (const int p : exercise::ranks({4, 1, 2, 3}))
    for (const bool overlap : {true, false})
      for (const int microbatches : {1, 3})
        expect_ddp_step(p, ReduceOp::mean, overlap, microbatches);
  expect_ddp_step(3, ReduceOp::sum, true);
}

TEST_CASE("13.6: a parameter that one rank did not use does not hold the others up") {
  const int p = 3;
  std::vector<Numbers> left(p);
  run(p, [&](Communicator& world) {
    const ParameterPtrs parameters = make_parameters(world.rank());
    const auto ddp = make_ddp(parameters, world);
    for (size_t i = parameters.size(); i-- > 0;)
      if (i != 4 || world.rank() != 1) backward_one(parameters, i, local_gradient(world.rank()));
    ddp->finish();
    left[static_cast<size_t>(world.rank())] = parameters[4]->gradient().values();
  });
  Numbers expected(6);
  for (const int r : {0, 2})
    for (size_t i = 0; i < 6; ++i) expected[i] += local_gradient(r)[12 + i] / p;
  for (int r = 0; r < p; ++r) {
    Clues clues;
    clues.what = fmt::format("layer 4, which rank 1 did not use, on rank {}", r);
    clues.ranks = p;
    const Numbers own = local_gradient(r);
    clues.suspects = {{not_reduced, Numbers(own.begin() + 12, own.begin() + 18)}};
    expect(compare(left[static_cast<size_t>(r)], expected, 1e-12, clues));
  }
}

TEST_CASE("13.6: the next backward finds everything ready") {
  const auto three_steps = [](Communicator& world) {
    const ParameterPtrs parameters = make_parameters(world.rank());
    const auto ddp = make_ddp(parameters, world);
    for (int step = 0; step < 3; ++step) {
      for (const ParameterPtr& each : parameters) each->zero_grad();
      backward(parameters, local_gradient(world.rank(), step));
      require_overlap(*ddp, step);
      ddp->finish();
      if (ddp->launched() != 0)
        fail(Where::current(), "after finish() launched() is {}; it counts from zero again",
             ddp->launched());
      Numbers expected(numbers);
      for (const int r : {0, 1})
        for (size_t i = 0; i < numbers; ++i) expected[i] += local_gradient(r, step)[i] / 2;
      Clues clues;
      clues.what = fmt::format("gradients of step {} on rank {}", step, world.rank());
      clues.ranks = 2;
      clues.suspects = {{not_reduced, local_gradient(world.rank(), step)}};
      if (const Verdict verdict = compare(all_gradients(parameters), expected, 1e-12, clues);
          !verdict)
        fail(Where::current(), "{}", verdict.text);
    }
  };
  try {
    run(2, three_steps);
  } catch (const RankFailed& error) {
    FAIL(std::string(error.what())
         << "\nfinish() was called after each backward: has it set `missing` and "
            "`launched_` as the constructor did?");
  }
  CHECK(true);
}
