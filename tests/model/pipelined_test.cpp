#include "yotta/model/pipelined.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/compare.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/tied_parameters.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t sequences = 5, length = 6;

TransformerConfig tiny(Dialect dialect, bool tied) {
  TransformerConfig c = dialect == Dialect::gpt2 ? gpt2_config(5, 8, 2, length, 11)
                                                 : llama_config(5, 16, 12, 4, 2, length, 11);
  c.tied = tied;
  c.deviation = 0.3;
  c.dropout = 0.2;
  c.dtype = DType::f64;
  c.seed = 3;
  return c;
}

// The microbatches of a step: 5 sequences in m parts, of different lengths; with m > 5 there are
// only 5.
std::vector<Microbatch> batch(int64_t step, int64_t m) {
  Tensor ids = Tensor::empty({sequences, length + 1}, DType::i32);
  const Random random(static_cast<uint64_t>(step), "ids");
  for (int64_t i = 0; i < ids.numel(); ++i)
    ids.data<int32_t>()[i] = static_cast<int32_t>(random.below(static_cast<uint64_t>(i), 11));
  Tensor inputs = Tensor::empty({sequences, length}, DType::i32), targets = inputs.clone();
  for (int64_t b = 0; b < sequences; ++b)
    for (int64_t t = 0; t < length; ++t) {
      inputs.data<int32_t>()[b * length + t] = ids.data<int32_t>()[b * (length + 1) + t];
      targets.data<int32_t>()[b * length + t] = ids.data<int32_t>()[b * (length + 1) + t + 1];
    }
  return microbatches(inputs, targets, m);
}

using Named = std::map<std::string, std::vector<double>>;

struct Outcome {
  std::vector<double> loss;
  Named gradients, weights;  // gradients of the first step, weights after three
};

void take_step(const std::vector<ParameterPtr>& parameters) {
  for (const ParameterPtr& each : parameters)
    for (int64_t i = 0; i < each->value.numel(); ++i)
      each->value.data<double>()[i] -= 0.05 * each->grad.data<double>()[i];
}

Outcome serial(const TransformerConfig& config, int64_t m) {
  RankContext one_thread;  // models this small are faster on one
  one_thread.threads = 1;
  const ContextScope scope(one_thread);
  const Transformer model(config);
  Outcome outcome;
  for (int64_t step = 0; step < 3; ++step) {
    zero_gradients(model.stack());
    double loss = 0;
    for (const Microbatch& each : batch(step, m)) {
      Saved saved({9, step, each.first_sequence, 0, true});
      Tensor dlogits;
      loss += loss_of(forward(model.stack(), each.inputs, saved), each.targets,
                      1.0 / (sequences * length), &dlogits);
      backward(model.stack(), dlogits, saved);
    }
    outcome.loss.push_back(loss);
    for (const ParameterPtr& each : parameters(model.stack()))
      if (step == 0) outcome.gradients[each->name] = each->grad.values();
    take_step(parameters(model.stack()));
  }
  for (const ParameterPtr& each : parameters(model.stack()))
    outcome.weights[each->name] = each->value.values();
  return outcome;
}

// Three steps on a pipeline; every rank's own parameters are compared with the serial ones.
void check_pipelined(const TransformerConfig& config, PipelineKind kind, int p, int v, int64_t m) {
  const PipelinePlan plan{kind, v};
  const Outcome expected = serial(config, m);
  CAPTURE(std::string(name(config.dialect)));
  CAPTURE(std::string(name(kind)));
  CAPTURE(p);
  CAPTURE(v);
  CAPTURE(m);
  RunOptions one_thread;
  one_thread.threads = 1;
  const auto body = [&](Communicator& pp) {
    std::vector<std::unique_ptr<Transformer>> stages;
    std::vector<Layers> chunks;
    std::vector<ParameterPtr> all;
    for (int c = 0; c < plan.chunks_of_rank(); ++c) {
      const int stage = stage_on(plan.placement(), pp.rank(), c, p);
      const StageLayers mine = stage_entries(config, plan.stages(p), stage);
      stages.push_back(std::make_unique<Transformer>(config, mine.first, mine.last));
      chunks.push_back(stages.back()->stack());
      for (const ParameterPtr& each : parameters(chunks.back())) all.push_back(each);
    }
    Pipeline pipeline(pp, chunks);
    TiedParameters tied(all, pp);
    const bool folds = plan.placement() == Placement::vee;  // both ends on rank 0
    const bool has_end = pp.rank() == 0 || (!folds && pp.rank() + 1 == p);
    if (plan.placement() == Placement::both_ways)  // the table is twice on each of two ranks
      CHECK(tied.size() == std::ssize(all) - (config.tied && has_end));
    else
      CHECK(tied.size() == (config.tied && plan.stages(p) > 1 && has_end));
    const PipelinedStep made{plan, config.width, config.dtype};
    const auto check = [&](const Named& numbers, bool gradients, const char* what) {
      for (const ParameterPtr& each : all) {
        Clues clues;
        clues.what = std::string(what) + " of " + each->name;
        const Verdict verdict = compare((gradients ? each->grad : each->value).values(),
                                        numbers.at(each->name), 1e-10, clues);
        CHECK_MESSAGE(verdict.equal, verdict.text);
      }
    };
    for (int64_t step = 0; step < 3; ++step) {
      for (const ParameterPtr& each : all) each->zero_grad();
      const double loss = run_pipelined(pipeline, p, made, {9, step, 0, {}, true}, batch(step, m),
                                        sequences * length)
                              .loss;
      const double all_losses = sum_over(pp, loss, "losses");
      CHECK(all_losses == doctest::Approx(expected.loss[static_cast<size_t>(step)]).epsilon(1e-10));
      if (pp.rank() == (folds ? 0 : p - 1) && plan.placement() != Placement::both_ways)
        CHECK(loss == doctest::Approx(expected.loss[static_cast<size_t>(step)]).epsilon(1e-10));
      else if (plan.placement() != Placement::both_ways)
        CHECK(loss == 0);
      tied.reduce();
      if (step == 0) check(expected.gradients, true, "gradient");
      take_step(all);
    }
    check(expected.weights, false, "weights after 3 steps");
  };
  run_ranks(p, body, one_thread);
}

}  // namespace

TEST_CASE(
    "a pipelined transformer is the serial one: both dialects, tied or not, dropout, every "
    "schedule") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama}) {
    const TransformerConfig config = tiny(dialect, true);
    for (const int p : {1, 2, 3, 4}) {
      check_pipelined(config, PipelineKind::one_f_one_b, p, 1, 3);
      check_pipelined(config, PipelineKind::interleaved, p, 2, 2);
    }
    for (const int p : {1, 2}) {
      check_pipelined(config, PipelineKind::zb_v, p, 1, 4);
      check_pipelined(config, PipelineKind::dual_pipe_v, p, 1, 4);
      check_pipelined(config, PipelineKind::interleaved_zb, p, 2, 3);
      check_pipelined(config, PipelineKind::automatic, p, 1, 3);
    }
    check_pipelined(config, PipelineKind::dual_pipe, 2, 1, 4);
    check_pipelined(tiny(dialect, false), PipelineKind::dual_pipe, 2, 1, 4);
    check_pipelined(tiny(dialect, false), PipelineKind::zb_v, 3, 1, 3);
    check_pipelined(config, PipelineKind::gpipe, 2, 1, 7);  // only 5 sequences: 5 microbatches
    check_pipelined(config, PipelineKind::naive, 3, 1, 2);
    check_pipelined(config, PipelineKind::one_f_one_b, 8, 1, 4);  // more stages than blocks
    check_pipelined(tiny(dialect, false), PipelineKind::one_f_one_b, 3, 1, 3);
  }
}

TEST_CASE("the Trainer runs a pipeline: loss, norm and weights of three clipped steps of AdamW") {
  const TransformerConfig config = tiny(Dialect::gpt2, true);
  const TrainOptions options{.schedule = {0.01, 0.01, 0, 3}, .clip = 0.5, .seed = 9};
  const Transformer whole(config);
  AdamW adamw(parameters(whole.stack()));
  Trainer serial_trainer(whole.stack(), adamw, options);
  std::vector<StepReport> expected;
  for (int64_t step = 0; step < 3; ++step)
    expected.push_back(serial_trainer.step(step, batch(step, 3), sequences * length));
  Named weights;
  for (const ParameterPtr& each : parameters(whole.stack()))
    weights[each->name] = each->value.values();
  run_ranks(3, [&](Communicator& pp) {
    const StageLayers mine = stage_entries(config, 3, pp.rank());
    const Transformer stage(config, mine.first, mine.last);
    Pipeline pipeline(pp, {stage.stack()});
    TiedParameters tied(parameters(stage.stack()), pp);
    const auto sum = [&](double value) { return sum_over(pp, value, "sum"); };
    TrainHooks hooks;
    hooks.run_microbatches = [&](const BatchPosition& place, std::span<const Microbatch> parts,
                                 int64_t tokens) {
      const PipelinedStep made{{}, config.width, config.dtype};
      return run_pipelined(pipeline, 3, made, place, parts, tokens).loss;
    };
    hooks.after_backward = [&] { tied.reduce(); };
    hooks.sum_over_ranks = hooks.sum_of_squares = sum;
    hooks.world = pp;
    AdamW own(parameters(stage.stack()));
    Trainer trainer(stage.stack(), own, options, hooks);
    for (int64_t step = 0; step < 3; ++step) {
      const StepReport report = trainer.step(step, batch(step, 3), sequences * length);
      const StepReport& wanted = expected[static_cast<size_t>(step)];
      CHECK(report.loss == doctest::Approx(wanted.loss).epsilon(1e-10));
      CHECK(report.gradient_norm == doctest::Approx(wanted.gradient_norm).epsilon(1e-10));
    }
    for (const ParameterPtr& each : parameters(stage.stack())) {
      if (each->name.ends_with("attention.k.bias")) continue;  // its gradient is rounding noise
      Clues clues;
      clues.what = each->name;
      const Verdict verdict = compare(each->value.values(), weights.at(each->name), 1e-8, clues);
      CHECK_MESSAGE(verdict.equal, verdict.text);
    }
    if (pp.rank() == 1) parameters(stage.stack())[0]->value.fill(NAN);
    const std::string complaint = message_of([&] { trainer.step(3, batch(3, 3), 30); });
    CHECK(contains(complaint, "on rank 0, the gradient of"));
  });
}

TEST_CASE("the entries of the stages are the whole stack, each once, blocks shared out evenly") {
  for (const bool ends_count : {false, true})
    for (const int64_t layers : {0, 1, 5, 8})
      for (int stages = 1; stages <= 9; ++stages) {
        TransformerConfig config;
        config.layers = layers;
        int64_t next = 0;
        for (int stage = 0; stage < stages; ++stage) {
          const StageLayers mine = stage_entries(config, stages, stage, ends_count);
          CHECK(mine.first == next);
          CHECK(mine.last >= mine.first);
          if (ends_count) CHECK((mine.last - mine.first - (layers + 2) / stages) / 2 == 0);
          next = mine.last;
        }
        CHECK(next == layers + 2);
      }
}

TEST_CASE("Llama 3 405B on 16 x 8 stages: the embedding alone, one block each, the head alone") {
  for (int stage = 0; stage < 128; ++stage) {
    const StageLayers mine = stage_entries(llama3_405b(), 128, stage, true);
    CHECK(mine.first == stage);
    CHECK(mine.last == stage + 1);
  }
  // On 16 stages the first and the last have a block less than the others.
  CHECK(stage_entries(llama3_405b(), 16, 0, true).last - 1 == 7);
  CHECK(stage_entries(llama3_405b(), 16, 1, true).last -
            stage_entries(llama3_405b(), 16, 1, true).first ==
        8);
}
