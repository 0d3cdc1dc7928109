// Lesson 29: how large a model a budget buys, what that takes, and how far more chips help. Trained
// models are read from bench/results/scaling/; only the gradient noise at the end is measured now,
// in well under a second.
#include <cmath>
#include <fstream>

#include "course/lesson/lesson.hpp"
#include "course/pictures/scaling_picture.hpp"
#include "course/pictures/scaling_results.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/gradient_noise.hpp"
#include "yotta/plan/training_budget.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t leave = 0, chips = 16000, mfu = 40, microbatches = 16, only = 0, draw = 0;
};

double exponent_of(const LossLaw& law) { return law.beta / (law.alpha + law.beta); }

// The isoFLOP runs without the largest budgets.
std::vector<ScalingRun> fitted_runs(int64_t leave, bool with_output = true) {
  std::vector<std::vector<ScalingRun>> budgets =
      by_budget(scaling_results().scaling_runs("isoflop", with_output));
  std::vector<ScalingRun> runs;
  for (size_t i = 0; i + static_cast<size_t>(leave) < budgets.size(); ++i)
    runs.insert(runs.end(), budgets[i].begin(), budgets[i].end());
  return runs;
}

// ---- isoFLOP curves ----------------------------------------------------------------------------

// Where the numbers come from.
void describe(Lesson& lesson, const ScalingResults& results) {
  double seconds = 0;
  int64_t models = 0;
  for (const MeasuredRun& run : results.runs)
    if (run.part != "held_out") ++models, seconds += run.cpu_seconds;
  lesson.say("{} models on {} bytes of this course's text, {:.0f} s of CPU", models,
             results.train_bytes, seconds);
  lesson.say("{}", results.command);
  lesson.say("{}, commit {}, seed {}, text {}", results.date, results.commit, results.seed,
             results.text);
}

void isoflop(Lesson& lesson) {
  lesson.section("Trained models: one curve for each budget");
  describe(lesson, scaling_results());
  lesson.say("{:>7}{:>7}{:>10}{:>12}{:>9}{:>16}{:>12}{:>9}", "FLOPs", "sizes", "best N", "its D",
             "loss", "parabola's N", "its D", "D / N");
  const std::vector<ScalingRun> runs = fitted_runs(0);
  const auto budgets = by_budget(runs);
  const std::vector<Optimum> best = envelope(runs), between = isoflop_minima(runs);
  for (size_t i = 0; i < budgets.size(); ++i) {
    lesson.say("{:>7.1e}{:>7}{:>10.0f}{:>12.0f}{:>9.3f}{:>16.0f}{:>12.0f}{:>9.1f}",
               budgets[i].front().flops, budgets[i].size(), best[i].parameters, best[i].tokens,
               best[i].loss, between[i].parameters, between[i].tokens,
               between[i].tokens / between[i].parameters);
    lesson.number(fmt::format("isoflop.{}.parameters", i), between[i].parameters);
  }
}

// The fit of the largest budget, run by run.
void parabola_by_hand(Lesson& lesson) {
  const std::vector<ScalingRun> budget = by_budget(fitted_runs(0)).back();
  const Parabola parabola = isoflop_parabola(budget);
  lesson.section("The parabola of the largest budget, fitted now");
  lesson.say("{:>10}{:>9}{:>9}{:>12}{:>9}", "N", "log N", "loss", "parabola", "off by");
  for (const ScalingRun& run : budget) {
    const double x = std::log(run.parameters);
    lesson.say("{:>10.0f}{:>9.3f}{:>9.3f}{:>12.3f}{:>9.3f}", run.parameters, x, run.loss,
               parabola(x), run.loss - parabola(x));
  }
  double least = 1e300, largest = 0;  // of the fits that leave out one run
  for (size_t i = 0; i < budget.size(); ++i) {
    std::vector<ScalingRun> others = budget;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const double N = std::exp(isoflop_parabola(others).lowest());
    least = std::min(least, N), largest = std::max(largest, N);
  }
  const double lowest = parabola.lowest();
  lesson.say("loss = {:.3f} + {:.4f} (log N - {:.3f})^2: lowest at N = {:.0f}", parabola(lowest),
             parabola.c[2], lowest, std::exp(lowest));
  lesson.say("without one of the runs: lowest at N = {:.0f} to {:.0f}", least, largest);
}

// ---- three ways --------------------------------------------------------------------------------

// A number of the fit beside what it is in the middle of the draws.
template <class Number>
std::string beside_draws(const LossLaw& law, const std::vector<LossLaw>& draws, Number number) {
  std::vector<double> drawn;
  for (const LossLaw& each : draws) drawn.push_back(number(each));
  const Interval interval = middle(drawn);
  return fmt::format("{:.2f}        {:.2f} to {:.2f}", number(law), interval.low, interval.high);
}

void three_ways(Lesson& lesson, int64_t leave) {
  const std::vector<ScalingRun> runs = fitted_runs(leave);
  const LossLaw law = fit_loss_law(runs);
  const std::vector<LossLaw> draws = bootstrap(runs, 100, 1);
  const auto beside = [&](auto number) { return beside_draws(law, draws, number); };
  lesson.section("Three ways to the exponent a: the best N grows as (FLOPs)^a");
  lesson.say("1. best run of each budget      a = {:.2f}",
             parameters_line(envelope(runs)).exponent);
  lesson.say("2. parabolas                    a = {:.2f}",
             parameters_line(isoflop_minima(runs)).exponent);
  lesson.say("3. L = E + A / N^alpha + B / D^beta, {} runs      80% of 100 draws", runs.size());
  lesson.say("                                a = {}", beside(exponent_of));
  lesson.say("                            alpha = {}",
             beside([](auto& each) { return each.alpha; }));
  lesson.say("                             beta = {}",
             beside([](auto& each) { return each.beta; }));
  lesson.say("                                E = {}", beside([](auto& each) { return each.E; }));
  lesson.number("law.exponent", exponent_of(law));
}

// ---- the held-out run --------------------------------------------------------------------------

void held_out(Lesson& lesson, int64_t leave) {
  const ScalingResults& results = scaling_results();
  const std::vector<ScalingRun> runs = fitted_runs(leave);
  const ScalingRun held = results.scaling_runs("held_out").at(0);
  const Forecast forecast = leave == 0 ? results.forecast_report.forecast : forecast_of(runs, held);
  lesson.section("A run that no fit has seen");
  lesson.say("{:.2e} FLOPs, {:.1f} times the largest budget of the fit: N {:.0f}, D {:.0f}",
             held.flops, held.flops / by_budget(runs).back().front().flops, held.parameters,
             held.tokens);
  lesson.say("forecast from {} runs, {}", runs.size(),
             leave == 0 ? "stored " + results.forecast_report.date : "made now");
  lesson.say("  best N for it      by the parabolas' line {:.0f}, by the law {:.0f}",
             forecast.best_by_line, forecast.best_by_law);
  lesson.say("  loss by the law    {:.3f} (80% of draws: {:.3f} to {:.3f})", forecast.loss,
             forecast.interval.low, forecast.interval.high);
  lesson.say("run, begun {}", results.held_out_report.date);
  lesson.say("  loss measured      {:.3f}: {:.1f}% {} the forecast", held.loss,
             100 * std::abs(held.loss / forecast.loss - 1),
             held.loss > forecast.loss ? "above" : "below");
  lesson.number("held_out.error", held.loss / forecast.loss - 1);
}

// ---- what counts -------------------------------------------------------------------------------

void what_counts(Lesson& lesson) {
  lesson.section("What N counts");
  for (const bool with_output : {true, false})
    lesson.say("{:<56} a = {:.2f}",
               with_output ? "the law fitted to N with the output matrix"
                           : "the law fitted to N without it, as Kaplan et al. count",
               exponent_of(fit_loss_law(fitted_runs(0, with_output))));
  const double text = 1e9;
  std::string times = "a text of 1e9 tokens, read ", worth = "is worth, in 1e9 tokens    ";
  for (const double readings : {1, 4, 16, 64}) {
    times += fmt::format("{:>6.0f}", readings);
    worth += fmt::format("{:>6.1f}", worth_of_tokens(readings * text, text) / text);
  }
  lesson.say("{} times", times);
  lesson.say("{}", worth);
}

// ---- published laws ----------------------------------------------------------------------------

// The best model by a law or a line: for Gopher's FLOPs, and for Llama 3's.
void published_row(Lesson& lesson, const char* name, double exponent, const Optimum& small,
                   const Optimum& large) {
  lesson.say("{:<40}{:>6.2f}{:>9.1f}{:>9.2f}{:>9.0f}{:>11.0f}{:>9.1f}", name, exponent,
             small.parameters / 1e9, small.tokens / 1e12, small.tokens / small.parameters,
             large.parameters / 1e9, large.tokens / 1e12);
}

void published_runs(Lesson& lesson) {
  const Optimum printed = llama3_printed_optimum();
  lesson.say(
      "Llama 3's paper prints {:.0f}e9 weights and {:.2f}e12 tokens; its rounded 0.29 and 0.53 "
      "would be {:.1f}e12",
      printed.parameters / 1e9, printed.tokens / 1e12, PowerLaw{0.29, 0.53}(printed.flops) / 1e12);
  const TrainedModel large = gopher_trained(), small = chinchilla_trained();
  const LossLaw law = chinchilla_refit();
  lesson.say(
      "Gopher, {:.0f}e9 on {}e12 tokens: loss {:.2f}; Chinchilla, {:.0f}e9 on {}e12: {:.2f} (law "
      "of 2024)",
      large.parameters / 1e9, large.tokens / 1e12, law(large.parameters, large.tokens),
      small.parameters / 1e9, small.tokens / 1e12, law(small.parameters, small.tokens));
}

void published(Lesson& lesson) {
  const double large = llama3_printed_optimum().flops;
  lesson.section(
      fmt::format("Published laws: the best model for {} FLOPs, and for {}", gopher_flops, large));
  lesson.say("{:<40}{:>6}{:>9}{:>9}{:>9}{:>11}{:>9}", "", "a", "N, 1e9", "D, 1e12", "D / N",
             "N, 1e9", "D, 1e12");
  for (const auto& [name, law] :
       {std::pair{"Chinchilla's third fit, as printed", chinchilla_law()},
        std::pair{"the same runs, fitted anew (2024)", chinchilla_refit()}})
    published_row(lesson, name, exponent_of(law), optimum(law, gopher_flops), optimum(law, large));
  const KaplanLaw kaplan;
  const Optimum for_gopher = optimum(kaplan, gopher_flops), for_llama = optimum(kaplan, large);
  published_row(lesson, "Kaplan's form, N without embeddings",
                kaplan.alpha_D / (kaplan.alpha_N + kaplan.alpha_D), for_gopher, for_llama);
  const PowerLaw line = llama3_tokens_line();
  const auto by_line = [&](double flops) {
    return Optimum{flops, flops / 6 / line(flops), line(flops), 0};
  };
  published_row(lesson, "Llama 3: D = 0.299 FLOPs^0.537", 1 - line.exponent, by_line(gopher_flops),
                by_line(large));
  published_runs(lesson);
}

// ---- years, megawatts, euros -------------------------------------------------------------------

std::string lasting(double seconds) {
  if (seconds < 1000 * seconds_a_day) return fmt::format("{:.0f} days", seconds / seconds_a_day);
  return fmt::format("{:.0f} years", seconds / seconds_a_year);
}

void one_of_each(Lesson& lesson) {
  const TrainedModel gpt3 = gpt3_trained(), llama = llama3_trained();
  lesson.section("From FLOPs to years: one of each, at its peak");
  lesson.say("{:<18}{:>14}{:>16}{:>18}{:>18}", "", "TFLOP/s", "GPT-3 3.15e23", "a slide: 5.24e23",
             "Llama 3 3.79e25");
  for (const Computer& computer : known_computers())
    lesson.say("{:<18}{:>14.1f}{:>16}{:>18}{:>18}", computer.name, computer.peak / 1e12,
               lasting(gpt3.flops() / computer.peak),
               lasting(6 * gpt3.parameters * gpt3_data_set / computer.peak),
               lasting(llama.flops() / computer.peak));
}

void years(Lesson& lesson, const Sizes& sizes) {
  one_of_each(lesson);
  const double mfu = static_cast<double>(sizes.mfu) / 100;
  const Fleet fleet{static_cast<double>(sizes.chips), chip_named("h100").bf16, false, mfu,
                    h100_watts};
  const RunNeeds needs = run_needs(llama3_trained().flops(), fleet);
  const RunPrice price = price_of(needs, fleet);
  lesson.say("Llama 3 405B on {} H100 at an MFU of {}%: {:.0f} days, {:.1f} MW, {:.1f} GWh",
             sizes.chips, sizes.mfu, needs.seconds / seconds_a_day, fleet.chips * fleet.watts / 1e6,
             needs.joules / joules_a_kwh / 1e6);
  lesson.say(
      "at {} euros per kWh, and {} times the power for the building: {:.1f} million euros; at {} "
      "per chip-hour: {:.0f} million",
      Prices{}.kwh, Prices{}.overhead, price.energy / 1e6, Prices{}.chip_hour, price.rent / 1e6);
  lesson.say("wrong: with the sparse peak {:.0f} days", needs.seconds / seconds_a_day / 2);
  lesson.number("years.days", needs.seconds / seconds_a_day);
}

// Chip-hours as their makers print them. Llama 3.1's model card, 2024 ("15T+" tokens; 405B: the
// paper's 15.6e12); DeepSeek-V3's report, 2024, table 1, pre-training alone.
struct PrintedHours {
  TrainedModel model;  // of a mixture of experts, the weights that a token meets
  double hours;
};
constexpr PrintedHours printed_hours[] = {{{"Llama 3.1 8B", 8.03e9, 15e12}, 1.46e6},
                                          {{"Llama 3.1 70B", 70.6e9, 15e12}, 7.0e6},
                                          {{"Llama 3.1 405B", 405e9, 15.6e12}, 30.84e6},
                                          {{"DeepSeek-V3", 37e9, 14.8e12}, 2.664e6}};

void chip_hours(Lesson& lesson) {
  lesson.section("Chip-hours that were printed: 6 N D over hours and peak is the MFU");
  lesson.say("{:<18}{:>8}{:>11}{:>12}{:>15}{:>8}", "", "N, 1e9", "D, 1e12", "FLOPs", "chip-hours",
             "MFU");
  double llama = 0;
  for (const auto& [model, hours] : printed_hours) {
    lesson.say("{:<18}{:>8.1f}{:>11.1f}{:>12.2e}{:>15.0f}{:>7.1f}%", model.name,
               model.parameters / 1e9, model.tokens / 1e12, model.flops(), hours,
               100 * model.flops() / (hours * 3600 * chip_named("h100").bf16));
    llama += model.name[0] == 'L' ? hours : 0;
  }
  const double trained_on = 512.0 * (198 + 80) + 5000;  // DeepSeek-R1, Nature 2025, supplement
  lesson.say("all three Llama 3.1: {:.1f} million; DeepSeek-V3: {:.1f}; from V3 to R1: {:.3f}",
             llama / 1e6, printed_hours[3].hours / 1e6, trained_on / 1e6);
  const TrainedModel small{"70e9 on 15e12", 70e9, 15e12};
  // Tokens of a step over those that hide FSDP.
  const double chips = std::floor(16e6 / (459e12 / 540e9));
  lesson.say("70e9 weights on 15e12 tokens: {:.1e} FLOPs; on {:.0f} TPU v5p at 50%: {:.1f} days",
             small.flops(), chips,
             small.flops() / (chips * chip_named("v5p").bf16 / 2) / seconds_a_day);
}

// What FLOPs of a later year are worth in an earlier one's, if the need halves so often.
void effective_compute(Lesson& lesson) {
  const double months = 54;  // GPT-3 (June 2020) to DeepSeek-V3 (December 2024)
  const double spent = printed_hours[3].model.flops();
  lesson.section("Effective compute: FLOPs times what algorithms have gained since");
  for (const double halving : {5.0, 8.0, 14.0})
    lesson.say("halved every {:>2} months: {:>6.0f} times in {} months, {:.1e} FLOPs of 2020",
               halving, std::exp2(months / halving), months, spent * std::exp2(months / halving));
}

// ---- more chips --------------------------------------------------------------------------------

void adding_chips(Lesson& lesson, const Sizes& sizes) {
  const SharedStep step{100, 0.1};
  const auto m = static_cast<double>(sizes.microbatches);
  constexpr double critical = 256, endless = 1e15;
  lesson.section(
      fmt::format("More chips: how many times as fast. A step computes {} s on one chip, and "
                  "exchanges {} s",
                  step.compute, step.exchange));
  lesson.say("{:>6}{:>22}{:>28}{:>32}", "chips", "strong: same batch",
             fmt::format("weak: critical batch {}", critical),
             fmt::format("pipeline, {} microbatches", sizes.microbatches));
  for (const double p : {1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0})
    lesson.say("{:>6}{:>22.1f}{:>28.1f}{:>32.1f}", p, strong_speedup(step, p),
               weak_speedup(step, p, 1, critical), pipeline_speedup(p, m));
  lesson.say("never more than{:>13.0f}{:>28.1f}{:>32.1f}", step.compute / step.exchange,
             weak_speedup(step, endless, 1, critical), pipeline_speedup(endless, m));
}

// ---- the critical batch ------------------------------------------------------------------------

// A few steps on four data ranks of two sequences, now.
GradientNoise noise_of(Communicator& world, const TransformerConfig& config,
                       const std::string& text) {
  const Transformer model(config);
  const std::vector<ParameterPtr> weights = parameters(model.stack());
  AdamW adamw(weights);
  GradientSquares squares;
  GradientNoise noise(2, 8);
  TrainHooks hooks;
  hooks.after_backward = [&] { squares = all_reduce_squares(weights, world); };
  Trainer trainer(model.stack(), adamw, {.schedule = {0.01, 0.01, 20, 40}}, hooks);
  const Batches batches(text, config.context, 1);
  for (int64_t i = 0; i < 40; ++i) {
    const Batch batch = batches.draw(i, 2 * world.rank(), 2);
    trainer.step(i, microbatches(batch.inputs, batch.targets, 1), 8 * config.context);
    if (i >= 20) noise.add(squares);
  }
  return noise;
}

void noise_now(Lesson& lesson) {
  const std::string text = read_text(std::string(YOTTA_SOURCE_DIR) + "/README.md").bytes;
  TransformerConfig config = llama_config(2, 32, 80, 4, 4, 64, 256);
  config.deviation = 0.15;
  run_ranks(4, [&](Communicator& world) {
    const GradientNoise noise = noise_of(world, config, text);
    if (world.rank() == 0)
      lesson.say(
          "now, steps 20 to 40 of a model of {} weights on this course's README: {:.0f} "
          "sequences",
          met_weights(counted_model(config)), noise.scale());
  });
}

void noise_scale(Lesson& lesson) {
  lesson.section("The gradient noise scale, from four data ranks of 2 sequences");
  lesson.say("{:>12}{:>8}{:>12}{:>10}{:>14}", "steps", "loss", "|G|^2", "S", "S / |G|^2");
  for (const MeasuredNoise& row : scaling_results().noise)
    lesson.say("{:>12}{:>8.2f}{:>12.3f}{:>10.2f}{:>14.0f}",
               fmt::format("{} to {}", row.first_step, row.first_step + row.steps), row.loss,
               row.signal, row.noise, row.noise / row.signal);
  noise_now(lesson);
}

void critical_batch(Lesson& lesson) {
  const ScalingResults& results = scaling_results();
  const BatchSteps measured = batch_steps(results);
  const BatchTradeoff fit = fit_batch_tradeoff(measured.batch, measured.steps);
  lesson.section(fmt::format("Steps to a loss of {:.1f}", results.part("batch").at(0).target));
  lesson.say("{:>16}{:>8}{:>12}{:>13}{:>12}   rates tried", "sequences", "steps", "the curve",
             "sequences", "best rate");
  for (size_t i = 0; i < measured.batch.size(); ++i)
    lesson.say("{:>10} a step{:>8}{:>12.0f}{:>9} all{:>12.4f}   {:.4f} to {:.4f}",
               measured.batch[i], measured.steps[i], fit.steps(measured.batch[i]),
               measured.batch[i] * measured.steps[i], measured.rate[i], measured.tried[i].low,
               measured.tried[i].high);
  lesson.say("steps = {:.0f} (1 + {:.1f} / batch): critical batch {:.1f} sequences",
             fit.least_steps, fit.critical, fit.critical);
  lesson.number("batch.critical", fit.critical);
}

// ---- width -------------------------------------------------------------------------------------

void widths(Lesson& lesson) {
  const ScalingResults& results = scaling_results();
  lesson.section("The best learning rate of a width, and what width 32's best rate gives it");
  lesson.say("{:>6}{:>28}{:>28}", "", "one rate for all", "muP");
  lesson.say("{:>6}{:>12}{:>7}{:>9}{:>12}{:>7}{:>9}", "width", "best rate", "loss", "at 32's",
             "best rate", "loss", "at 32's");
  for (const int width : {16, 32, 64, 128}) {
    std::string line = fmt::format("{:>6}", width);
    for (const bool mup : {false, true}) {
      const MeasuredRun best = best_rate(results, width, mup), base = best_rate(results, 32, mup);
      double taken = 0;
      for (const MeasuredRun& run : results.part("width"))
        if (run.width == width && run.mup == mup && run.rate == base.rate) taken = run.loss;
      line += fmt::format("{:>12}{:>7.3f}{:>9.3f}", best.rate, best.loss, taken);
      lesson.number(fmt::format("width.{}.{}", mup ? "mup" : "standard", width), best.rate);
    }
    lesson.say("{}", line);
  }
}

void draw() {
  std::ofstream("scaling_isoflop.svg") << scaling_isoflop_svg();
  std::ofstream("scaling_optimum.svg") << scaling_optimum_svg();
  std::ofstream("scaling_batch.svg") << scaling_batch_svg();
  std::ofstream("scaling_width.svg") << scaling_width_svg();
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  return run_lesson(
      argc, argv, {"29", "Scaling laws", "how large a model, how many tokens, how many years"},
      [&](Lesson& lesson) {
        const auto wanted = [&](int part) { return sizes.only == 0 || sizes.only == part; };
        if (wanted(1)) isoflop(lesson), parabola_by_hand(lesson);
        if (wanted(2)) three_ways(lesson, sizes.leave);
        if (wanted(3)) held_out(lesson, sizes.leave);
        if (wanted(4)) what_counts(lesson), published(lesson);
        if (wanted(5)) years(lesson, sizes), chip_hours(lesson), effective_compute(lesson);
        if (wanted(6)) adding_chips(lesson, sizes);
        if (wanted(7)) noise_scale(lesson), critical_batch(lesson);
        if (wanted(8)) widths(lesson);
        if (sizes.draw == 1) draw();
        lesson.say("\nNext: write it yourself, ./yotta check 29");
      },
      {{"leave", "parts 2 and 3: fit without so many of the largest budgets", &sizes.leave, 0, 1},
       {"chips", "part 5: H100 that train Llama 3 405B", &sizes.chips, 1, 1'000'000},
       {"percent", "part 5: the MFU in percent", &sizes.mfu, 1, 100},
       {"microbatches", "part 6: of the pipeline", &sizes.microbatches, 1, 1'000'000},
       {"only",
        "1: isoFLOP, 2: three ways, 3: held out, 4: counting and published laws, 5: years, 6: more "
        "chips, 7: batch, 8: width",
        &sizes.only, 0, 8},
       {"draw", "1: write the four pictures into this folder", &sizes.draw, 0, 1}});
}
