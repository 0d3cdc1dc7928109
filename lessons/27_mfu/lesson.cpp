// Lesson 27: which share of the peak a training run gets, how it is counted, where the rest goes,
// and how to measure.
#include <chrono>
#include <fstream>
#include <numeric>
#include <thread>

#include "course/lesson/lesson.hpp"
#include "course/pictures/mfu_picture.hpp"
#include "yotta/core/matmul.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/linear_ops.hpp"
#include "yotta/nn/transformer.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t faster = 1, slower = 1, between = 16, batch = 16, microbatches = 4, only = 0, draw = 0;
};

double percent(double share) { return 100 * share; }

// ---- FLOPs of a token --------------------------------------------------------------------------

void flops_of_models(Lesson& lesson) {
  lesson.section("FLOPs of a token forward, in 1e9, and what a causal mask leaves of attention");
  lesson.say("{:<16}{:>7}{:>9}{:>8}{:>11}{:>9}{:>13}{:>8}{:>12}", "", "T", "q k v o", "scores",
             "feed-fwd.", "output", "N, met, 1e9", "sum", "3 sum / 6N");
  struct Row {
    const char* name;
    CountedModel model;
    double T;
  };
  for (const Row& row : {Row{"GPT-2 124M", counted_model(gpt2_124m()), 1024},
                         {"Llama 3 8B", counted_model(llama3_8b()), 8192},
                         {"Llama 3 405B", counted_model(llama3_405b()), 8192},
                         {"Llama 3 405B", counted_model(llama3_405b()), 131072},
                         {"Mixtral 8x7B", mixtral_8x7b(), 8192},
                         {"DeepSeek-V3", deepseek_v3_671b(), 4096},
                         {"PaLM 540B", palm_540b(), 2048}}) {
    const TokenFlops f = forward_flops(row.model, row.T, Scores::causal);
    const double N = all_weights(row.model);
    lesson.say("{:<16}{:>7.0f}{:>9.2f}{:>8.2f}{:>11.2f}{:>9.2f}{:>7.1f} {:>5.1f}{:>8.2f}{:>12.3f}",
               row.name, row.T, f.projections / 1e9, f.scores / 1e9, f.feed_forward / 1e9,
               f.output / 1e9, N / 1e9, met_weights(row.model) / 1e9, f.sum() / 1e9,
               f.sum() / (2 * N));
    lesson.number(fmt::format("flops.{}.{}", row.name, row.T), f.sum());
  }
}

// The formula against what our model computes on shapes: plain attention computes all scores.
void counted(Lesson& lesson) {
  lesson.section("The formula, and what our layers compute: one sequence, forward and backward");
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama}) {
    TransformerConfig config = dialect == Dialect::gpt2
                                   ? gpt2_config(4, 256, 8, 512, 1000)
                                   : llama_config(4, 256, 688, 8, 2, 512, 1000);
    config.attention = AttentionKind::plain;
    double computed = 0;
    run_ranks(1, [&](Communicator&) {
      const DeviceScope meta(Device::meta);
      const Transformer model(config);
      Saved saved({0, 0, 0, 0, true});
      backward(model.stack(),
               forward(model.stack(), Tensor::empty({1, config.context}, DType::i32), saved),
               saved);
      for (const auto& [name, count] : context().ledger.ops())
        if (is_matrix_product(name)) computed += count.flops;
    });
    const auto T = static_cast<double>(config.context);
    lesson.say("{:<6} counted {:.0f}, by the formula {:.0f}", name(dialect), computed,
               T * model_flops(counted_model(config), T, Scores::all));
  }
}

// ---- one run, counted in many ways -------------------------------------------------------------

// FSDP on 8 H100, whole blocks computed again.
MfuRun counted_run() {
  MfuRun run;
  run.model = llama3_8b();
  run.layout = {.dp_shard = 8};
  run.batch = 8;
  run.options.sequence = run.sequence;
  run.options.checkpoint = {Recompute::all};
  return run;
}

void ways_of_counting(Lesson& lesson) {
  const MfuReport report = mfu_of(counted_run(), cluster_named("h100x8"));
  const CountedModel model = counted_model(llama3_8b());
  const Chip& h100 = chip_named("h100");
  const double T = 8192, tokens = report.tokens_a_second, chips = 8;
  lesson.section("One run of Llama 3 8B on 8 H100, described: FSDP, whole blocks computed again");
  lesson.say("{:.0f} tokens per second: {:.1f} ms per step", tokens, 1e3 * report.step_seconds);
  const double need = model_flops(model, T, Scores::causal), with_all = 6 * all_weights(model);
  const double scores = need - model_flops(model, T, Scores::none);
  const double again = hardware_flops(model, T, Scores::causal, Recomputed::all);
  const auto say = [&](const char* what, double flops, double peak, double rate) {
    const double share = mfu(flops, rate, chips, peak);
    lesson.say("{:<62}{:>6.1f}%", what, percent(share));
    lesson.number(fmt::format("ways.{}", what), share);
  };
  lesson.say("{:<62}{:>7}", "what is counted", "MFU");
  say("what the model needs: 6 for each weight met, causal scores", need, h100.bf16, tokens);
  say("no scores: 6 for each weight met", need - scores, h100.bf16, tokens);
  say("no scores: 6 N, the token table too", with_all, h100.bf16, tokens);
  say("6 N and all scores, the masked ones too (PaLM)", with_all + 2 * scores, h100.bf16, tokens);
  say("HFU: what is computed again counts", again, h100.bf16, tokens);
  say("HFU as four thirds of 6 N and all scores", (with_all + 2 * scores) * 4 / 3, h100.bf16,
      tokens);
  say("of the sparse peak, 1979 TFLOP/s", need, 2 * h100.bf16, tokens);
  say("of the fp8 peak, in which nothing was computed", need, h100.fp8, tokens);
  say("of what the fastest kernels reach, 80% of the peak", need, 0.8 * h100.bf16, tokens);
  say("wrong: one rank's tokens over all chips", need, h100.bf16, tokens / chips);
}

// Published figures, and the same runs by one rule: weights met, causal scores, dense peak of the
// type.
void claims(Lesson& lesson) {
  lesson.section("Published figures, and the same runs counted by one rule");
  const auto say = [&](const char* name, const char* counts, double printed, double flops,
                       double tokens, double chips, double peak) {
    const double ours = percent(mfu(flops, tokens, chips, peak));
    lesson.say("{:<26}{:<43}{:>6.1f}%{:>7.1f}%", name, counts, printed, ours);
    lesson.number(fmt::format("claims.{}", name), ours);
  };
  const double s = 2048, a100 = chip_named("a100").bf16;
  const CountedModel trillion = counted_model(gpt2_config(128, 25600, 160, 2048, 51200));
  const auto of = [&](const CountedModel& m) { return model_flops(m, s, Scores::causal); };
  lesson.say("{:<26}{:<43}{:>7}{:>8}", "", "it counts", "printed", "by rule");
  say("PaLM 540B", "6 N, all scores", 46.2, of(palm_540b()), 238.3e3, 6144, 275e12);
  const double sc21 = hardware_flops(trillion, s, Scores::all, Recomputed::all);
  say("Megatron 1T, 2021", "four forward passes (HFU), all scores", 52, of(trillion),
      163e12 * 3072 / sc21, 3072, a100);
  say("Megatron 1T, 2022", "three forward passes, all scores", 56.3, of(trillion), 512 * s / 71.49,
      512, a100);
  say("the same, as HFU", "scores' backward pass a second time", 57.0, of(trillion),
      512 * s / 71.49, 512, a100);
  CountedModel mpt = counted_model(gpt2_config(32, 4096, 32, 65536, 50368));
  const double long_needed = model_flops(mpt, 65536, Scores::causal);
  say("MPT 7B, 65,536 tokens", "6 N, all scores", 28.59, long_needed, 1956, 1,
      chip_named("h100").bf16);
  mpt = counted_model(gpt2_config(32, 2560, 20, 2048, 50368));
  say("MPT 3B in bf16", "6 N, all scores", 40.8, of(mpt), 22525, 1, chip_named("h100").bf16);
  say("MPT 3B in fp8", "of the fp8 peak", 27.7, of(mpt), 30586, 1, chip_named("h100").fp8);
  const double deepseek = 14.8e12 / (2.79e6 * 3600);
  say("DeepSeek-V3, of 1.513e15", "6 for 37e9 active weights, no scores", 21.7,
      model_flops(deepseek_v3_671b(), 4096, Scores::causal), deepseek, 1, chip_named("h100").fp8);
}

// What one kernel reaches, by its size.
void matmuls(Lesson& lesson) {
  lesson.section("HFU of one bf16 matmul of n x n x n on an H100: the planner's, and cuBLAS's");
  lesson.say("{:>6}{:>12}{:>12}", "n", "planner", "published");
  for (const int64_t n : {256, 512, 1024, 2048, 4096, 6144, 8192, 12288}) {
    std::string published = "-";
    for (const PublishedMatmul& each : cublas_on_h100)
      if (each.n == n)
        published = fmt::format("{:.1f}%", percent(each.flops / chip_named("h100").bf16));
    lesson.say("{:>6}{:>11.1f}%{:>12}", n, percent(matmul_hfu(n)), published);
    lesson.number(fmt::format("hfu.{}", n), matmul_hfu(n));
  }
}

// ---- where the peak goes -----------------------------------------------------------------------

Cluster changed(Cluster cluster, const Sizes& sizes) {
  cluster.chip.bf16 *= static_cast<double>(sizes.faster);
  for (Level& level : cluster.levels) level.beta *= static_cast<double>(sizes.slower);
  return cluster;
}

MfuRun sized(MfuRun run, const Sizes& sizes) {
  run.batch = sizes.batch;
  return run;
}

void waterfall(Lesson& lesson, const Sizes& sizes) {
  lesson.section("Where the peak of 16 H100 went: 8 layers of Llama 3 8B, tp 2, pp 2, fsdp 4");
  MfuRun run = sized(first_mfu_run(), sizes);
  run.options.microbatches = sizes.microbatches;
  const MfuReport report = mfu_of(run, changed(cluster_named("h100x16"), sizes));
  lesson.show(waterfall_text(report.waterfall));
  double sum = report.waterfall.mfu();
  for (const LostTime& each : report.waterfall.lost) sum += each.seconds / report.waterfall.all();
  lesson.say("together {:.6f}%; a step of {} sequences of {} tokens takes {:.1f} ms", percent(sum),
             run.batch, run.sequence, 1e3 * report.step_seconds);
  lesson.number("waterfall.mfu", report.waterfall.mfu());
  lesson.number("waterfall.hfu", report.waterfall.hfu());
}

void table_head(Lesson& lesson, const char* what) {
  lesson.say("{:<34}{:>9}{:>8}{:>9}{:>9}{:>9}{:>9}{:>8}", what, "step", "MFU", "kernels", "memory",
             "launch", "comm.", "bubble");
}
void table_row(Lesson& lesson, const std::string& name, const MfuReport& report) {
  const Waterfall& fall = report.waterfall;
  lesson.say("{:<34}{:>6.0f} ms{:>7.1f}%{:>8.1f}%{:>8.1f}%{:>8.1f}%{:>8.1f}%{:>7.1f}%", name,
             1e3 * report.step_seconds, percent(fall.mfu()), percent(fall.share(Loss::clock)),
             percent(fall.share(Loss::memory)), percent(fall.share(Loss::launch)),
             percent(fall.share(Loss::communication)), percent(fall.share(Loss::bubble)));
  lesson.number(fmt::format("{}.mfu", name), fall.mfu());
}

void faster_chips(Lesson& lesson, const Sizes& sizes) {
  lesson.section("The same steps on chips that get faster: 16 chips, FSDP over all");
  table_head(lesson, "");
  for (const auto& [name, cluster] : faster_machines())
    table_row(lesson, name, mfu_of(sized(faster_run(), sizes), cluster));
}

// What helps when chips are 8 times as fast and all else is as it was.
void eight_times(Lesson& lesson) {
  lesson.section("H100 that multiply 8 times as fast: what helps");
  table_head(lesson, "");
  const Cluster machine = faster_machines().back().cluster;
  MfuRun run = faster_run();
  table_row(lesson, "8192 tokens per chip", mfu_of(run, machine));
  run.batch = 64;
  table_row(lesson, "4 sequences per chip", mfu_of(run, machine));
  run.layout = {.dp_shard = 8, .dp_replicate = 2};
  table_row(lesson, "and HSDP, nodes of 8", mfu_of(run, machine));
  Cluster memory = machine;
  memory.chip.bandwidth *= 8;
  table_row(lesson, "and memory 8 times as fast", mfu_of(run, memory));
}

void slow_networks(Lesson& lesson, const Sizes& sizes) {
  lesson.section(
      fmt::format("H100, and cards between nodes that are {} times as slow", sizes.between));
  table_head(lesson, "");
  struct Way {
    const char* name;
    MeshShape layout;
    int64_t batch, microbatches;
  };
  for (const Way& way : {Way{"FSDP over all", {.dp_shard = 16}, 16, 1},
                         {"HSDP, nodes of 8", {.dp_shard = 8, .dp_replicate = 2}, 16, 1},
                         {"FSDP, 4 sequences per chip", {.dp_shard = 16}, 64, 1},
                         {"FSDP, 4 microbatches", {.dp_shard = 16}, 64, 4},
                         {"HSDP, 4 microbatches", {.dp_shard = 8, .dp_replicate = 2}, 64, 4},
                         {"pp 2 of nodes, fsdp 8 inside", {.pp = 2, .dp_shard = 8}, 64, 8}}) {
    MfuRun run = faster_run();
    run.layout = way.layout, run.batch = way.batch, run.options.microbatches = way.microbatches;
    // A stage is a node: the neighbours of a pipeline are 8 chips apart, and those of fsdp one.
    for (int rank = 0; way.layout.pp > 1 && rank < 16; ++rank)
      run.chips.push_back(rank % 2 * 8 + rank / 2);
    Cluster machine = cluster_named("h100x16");
    machine.levels.back().beta *= static_cast<double>(sizes.between);
    table_row(lesson, way.name, mfu_of(run, machine));
  }
}

// ---- measuring ---------------------------------------------------------------------------------

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// What a benchmark times: a product of two matrices that are made at the first call.
struct Product {
  explicit Product(int64_t size) : n(size) {}
  void operator()() {
    if (!a.defined()) {
      a = Tensor::full({n, n}, 0.5), b = Tensor::full({n, n}, 0.25);
    }
    c = linear(a, b);
  }
  int64_t n;
  Tensor a, b, c;
};

void no_warm_up(Lesson& lesson) {
  Product product(384);
  std::vector<double> seconds;
  for (int i = 0; i < 9; ++i) seconds.push_back(seconds_of(product));
  const double first = seconds[0];
  seconds.erase(seconds.begin());
  lesson.say(
      "1. no warm-up         the first step {:.2f} ms; the median of eight after it {:.2f} ms",
      1e3 * first, 1e3 * median_of(seconds));
}

void no_synchronisation(Lesson& lesson) {
  double started = 0, done = 0;
  run_ranks(2, [&](Communicator& world) {
    std::vector<float> x(1 << 20, 1);
    world.all_reduce(x);  // warm-up
    world.barrier();
    Work work;
    const double launch = seconds_of([&] { work = world.all_reduce_async(x, ReduceOp::sum); });
    const double wait = seconds_of([&] { work.wait(); });
    if (world.rank() == 0) started = launch, done = launch + wait;
  });
  lesson.say(
      "2. no synchronisation all_reduce_async came back after {:.3f} ms; it was done after "
      "{:.3f} ms",
      1e3 * started, 1e3 * done);
}

// Another program takes the machine for a while, once.
void mean_of_noise(Lesson& lesson) {
  Product product(256);
  product();
  std::vector<double> seconds;
  for (int i = 0; i < 15; ++i)
    seconds.push_back(seconds_of([&] {
      product();
      if (i == 7) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }));
  const double mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / 15;
  lesson.say(
      "3. the mean           {:.2f} ms, with one of 15 steps disturbed; the median {:.2f} ms",
      1e3 * mean, 1e3 * median_of(seconds));
}

void too_small(Lesson& lesson) {
  const auto rate = [](int64_t numbers, int times) {
    const Tensor x = Tensor::full({numbers}, 1), y = Tensor::full({numbers}, 2);
    add(x, y);
    std::vector<double> seconds;
    for (int i = 0; i < times; ++i) seconds.push_back(seconds_of([&] { add(x, y); }));
    return 12.0 * static_cast<double>(numbers) / median_of(seconds) / 1e9;
  };
  lesson.say(
      "4. a small size       adding 64 KiB at {:.1f} GB/s, from the cache; 32 MiB at {:.1f} "
      "GB/s, from memory",
      rate(16 << 10, 41), rate(8 << 20, 3));
}

void a_part(Lesson& lesson) {
  Product product(256);
  product();
  const Tensor x = Tensor::full({256, 256}, 1);
  const auto step = [&] {
    product();
    for (int i = 0; i < 4; ++i) add(product.c, x);
  };
  std::vector<double> part, whole;
  for (int i = 0; i < 9; ++i)
    part.push_back(seconds_of(product)), whole.push_back(seconds_of(step));
  lesson.say(
      "5. a part of the step the matrix product alone {:.2f} ms; with what stands around it "
      "{:.2f} ms",
      1e3 * median_of(part), 1e3 * median_of(whole));
}

void wrong_benchmarks(Lesson& lesson) {
  lesson.section("Five wrong benchmarks, on this computer, now");
  no_warm_up(lesson);
  no_synchronisation(lesson);
  mean_of_noise(lesson);
  too_small(lesson);
  a_part(lesson);
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  return run_lesson(
      argc, argv,
      {"27", "MFU", "the share of the peak: counting, measuring, and where the rest goes"},
      [&](Lesson& lesson) {
        const auto wanted = [&](int part) { return sizes.only == 0 || sizes.only == part; };
        if (wanted(1)) flops_of_models(lesson), counted(lesson);
        if (wanted(2)) ways_of_counting(lesson), claims(lesson), matmuls(lesson);
        if (wanted(3)) waterfall(lesson, sizes);
        if (wanted(4)) faster_chips(lesson, sizes);
        if (wanted(5)) eight_times(lesson);
        if (wanted(6)) slow_networks(lesson, sizes);
        if (wanted(7)) wrong_benchmarks(lesson);
        if (sizes.draw == 1) {
          std::ofstream("mfu_hfu.svg") << hfu_svg();
          std::ofstream("mfu_waterfall.svg") << first_waterfall_svg();
          std::ofstream("mfu_faster.svg") << faster_svg();
        }
        lesson.say("\nNext: write it yourself, ./yotta check 27");
      },
      {{"faster", "part 3: chips multiply so many times as fast", &sizes.faster, 1, 1000},
       {"slower", "part 3: all links are so many times as slow", &sizes.slower, 1, 1000},
       {"between", "part 6: network cards are so many times as slow", &sizes.between, 1, 1000},
       {"batch", "parts 3 and 4: sequences of a step", &sizes.batch, 16, 256},
       {"microbatches", "part 3: of a step", &sizes.microbatches, 1, 64},
       {"only",
        "1: FLOPs, 2: counting, 3: the waterfall, 4: faster chips, 5: what helps, 6: slow "
        "networks, "
        "7: benchmarks",
        &sizes.only, 0, 7},
       {"draw", "1: write mfu_hfu.svg, mfu_waterfall.svg and mfu_faster.svg into this folder",
        &sizes.draw, 0, 1}});
}
