// Lesson 25: a mixture of experts, how its loads stay even, and its experts on many ranks.
#include <cmath>
#include <fstream>
#include <numeric>

#include "course/lesson/lesson.hpp"
#include "course/pictures/capacity_loss_picture.hpp"
#include "course/pictures/expert_parallel_picture.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/core/chunks.hpp"
#include "yotta/core/random.hpp"
#include "yotta/machine/pictures/timeline.hpp"
#include "yotta/nn/softmax.hpp"
#include "yotta/nn/transformer_config.hpp"
#include "yotta/parallel/expert_cost.hpp"
#include "yotta/parallel/expert_parallel.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t experts = 8, top_k = 2, tokens = 512, width = 32;
};

Tensor random_rows(const Shape& shape, const std::string& name, DType dtype = DType::f64) {
  Tensor x = Tensor::empty(shape, dtype);
  const Random random(25, name);
  visit_real(dtype, Where::current(), [&]<class Real>(Type<Real>) {
    for (int64_t i = 0; i < x.numel(); ++i)
      x.data<Real>()[i] = static_cast<Real>(random.normal(static_cast<uint64_t>(i)));
  });
  return x;
}

std::string list(const std::vector<double>& numbers, const char* form = "{:>7.3f}") {
  std::string text;
  for (const double each : numbers) text += fmt::format(fmt::runtime(form), each);
  return text;
}
std::string list(const std::vector<int64_t>& numbers) {
  return fmt::format("{}", fmt::join(numbers, " "));
}

std::vector<ParameterPtr> parameters_of(Layer& layer) {
  std::vector<ParameterPtr> all;
  layer.add_parameters(all);
  return all;
}

// ---- from one expert to E ----

void more_weights(Lesson& lesson) {
  lesson.section("A layer of Mixtral's sizes, C 4096 and F 14336, with 1, 2 and 8 experts");
  lesson.say("{:<24}{:>14}{:>20}{:>18}", "", "weights", "FLOPs of a token", "FLOPs a weight");
  for (const auto& [E, k] : {std::pair<int64_t, int64_t>{1, 1}, {2, 2}, {8, 2}, {64, 2}}) {
    TransformerConfig c = llama_config(1, 4096, 14336, 32, 8, 1, 1);
    c.mixture = {.experts = E, .top_k = k};
    const double held = static_cast<double>(mixture_parameters(c, E));
    const double run = 2 * static_cast<double>(mixture_parameters(c, k));
    lesson.say("{:<24}{:>12.1f} M{:>18.1f} M{:>18.3f}", fmt::format("{} of {} experts", k, E),
               held * 1e-6, run * 1e-6, run / held);
    lesson.number(fmt::format("weights.{}", E), held);
  }
}

// ---- the router ----

void router_by_hand(Lesson& lesson) {
  lesson.section("A router: three tokens, four experts, k = 2");
  const Tensor x = Tensor::from<double>({1, 0, 0, 1, 1, 1}, {3, 2});
  lesson.say("{:<22}{:<30}{:<12}{}", "", "scores", "experts", "weights");
  for (const bool sigmoid : {false, true}) {
    Router router("router",
                  {.width = 2,
                   .experts = 4,
                   .top_k = 2,
                   .score = sigmoid ? RouterScore::sigmoid : RouterScore::softmax,
                   .bias_rate = sigmoid ? 0.1 : 0},
                  {1, DType::f64});
    const std::vector<ParameterPtr> own = parameters_of(router);
    own[0]->value.copy_from(Tensor::from<double>({2, 0, 1, 0, 0, 1, 0, 0}, {4, 2}));
    if (sigmoid)
      own[1]->value.copy_from(
          Tensor::from<double>({-0.5, 0, 0, 0}, {4}).reshape(own[1]->value.shape()));
    Saved saved;
    const Routing to = router.route(x, saved);
    Tensor scores = saved.get("logits");
    if (sigmoid)
      for (double& z : scores.span<double>()) z = 1 / (1 + std::exp(-z));
    else
      scores = softmax(scores);
    for (int64_t i = 0; i < 3; ++i)
      lesson.say("{:<22}{:<30}{:<12}{}",
                 i > 0     ? ""
                 : sigmoid ? "sigmoid, b_0 = -0.5"
                           : "softmax",
                 list(scores.rows(i, i + 1).values()),
                 fmt::format("{} {}", to.expert.item({i, 0}), to.expert.item({i, 1})),
                 list(to.weight.rows(i, i + 1).values()));
  }
}

// ---- rows ----

void rows_by_hand(Lesson& lesson) {
  lesson.section("Three tokens, k = 2, three experts: sorted, and with a capacity of 2");
  const Tensor expert = Tensor::from<int32_t>({1, 2, 0, 1, 1, 0}, {3, 2});
  const Tensor x = Tensor::from<double>({10, 20, 30}, {3, 1});
  const Tensor weight = Tensor::full({3, 2}, 0.5, DType::f64);
  for (const int64_t capacity : {no_capacity, int64_t{2}}) {
    const ExpertRows rows = sort_by_expert(expert, 3, capacity);
    const Tensor gathered = gather_rows(x, rows.assignment, 2);
    lesson.say("{:<14} assignments{}   rows of x{}   counts {}   sums{}",
               capacity == 2 ? "capacity 2" : "no capacity", list(rows.assignment.values(), " {}"),
               list(gathered.values(), " {}"), list(rows.counts),
               list(combine_rows(gathered, rows.assignment, weight).values(), " {}"));
  }
}

// ---- gradients ----

MoeOptions mixture(int64_t C, int64_t E, int64_t k, int64_t hidden) {
  MoeOptions o;
  o.router = {.width = C, .experts = E, .top_k = k, .initial = normal(1)};
  o.experts = {.hidden = hidden, .initial = normal(0.5), .initial_down = normal(0.5)};
  return o;
}

// sum of dy y, which the gradients below belong to.
double loss_of(MoeMlp& layer, const Tensor& x, const Tensor& dy) {
  Saved saved;
  const std::vector<double> y = layer.forward(x, saved).values(), d = dy.values();
  return std::inner_product(y.begin(), y.end(), d.begin(), 0.0);
}

void gradients(Lesson& lesson) {
  lesson.section("Gradients of a mixture, and difference quotients: 5 tokens, 4 experts, k = 2");
  MoeMlp layer("mlp", mixture(6, 4, 2, 4), {1, DType::f64});
  const Tensor x = random_rows({5, 6}, "x"), dy = random_rows({5, 6}, "dy");
  Saved saved;
  layer.forward(x, saved);
  layer.backward_input(dy, saved);
  layer.backward_weight(saved);
  lesson.say("{:<32}{:>12}{:>12}", "", "gradient", "quotient");
  for (const ParameterPtr& each : parameters_of(layer)) {
    if (each->name != "mlp.router.weight" && !each->name.ends_with("experts.1.up.weight")) continue;
    for (const int64_t i : {0, 5}) {
      double& number = each->value.data<double>()[i];
      const double was = number, step = 1e-5;
      number = was + step;
      const double above = loss_of(layer, x, dy);
      number = was - step;
      const double below = loss_of(layer, x, dy);
      number = was;
      lesson.say("{:<32}{:>12.6f}{:>12.6f}", fmt::format("{}[{}]", each->name, i),
                 each->grad.data<double>()[i], (above - below) / (2 * step));
    }
  }
}

// ---- balance ----

void balance(Lesson& lesson) {
  lesson.section("The busiest of 16 experts: rows over the mean; and the size of the logits");
  lesson.say("{:<28}{:>9}{:>12}{:>13}{:>18}", "", "at first", "10 batches", "50 batches",
             "log-sum-exp");
  const std::pair<const char*, RouterOptions> ways[] = {{"nothing", {}},
                                                        {"balance loss 0.1", {.balance_loss = 0.1}},
                                                        {"z-loss 0.01", {.z_loss = 0.01}},
                                                        {"bias, rate 0.02", bias_router}};
  for (const auto& [name, options] : ways) {
    std::vector<double> factors;  // the busiest expert's rows over the mean
    RouterLoads loads;
    for (const int batches : {0, 10, 50}) {
      loads = router_loads(options, batches);
      factors.push_back(load_factor(loads.rows));
    }
    lesson.say("{:<28}{:>9.2f}{:>12.2f}{:>13.2f}{:>18.2f}", name, factors[0], factors[1],
               factors[2], loads.log_sum_exp);
    lesson.numbers(fmt::format("balance.{}", name), factors);
  }
}

void dropped(Lesson& lesson) {
  lesson.section("Assignments that a capacity drops: 16 experts, 1024 tokens, k = 2");
  lesson.say("{:<30}{:>8}{:>8}{:>8}{:>8}{:>8}", "capacity factor", "1.0", "1.25", "1.5", "2.0",
             "3.0");
  for (const auto& [name, batches] :
       {std::pair{"router as made", 0}, {"after 10 batches with a bias", 10}, {"after 50", 50}}) {
    const std::vector<int64_t> loads = router_loads(bias_router, batches).rows;
    std::string line = fmt::format("{:<30}", name);
    for (const double factor : {1.0, 1.25, 1.5, 2.0, 3.0})
      line += fmt::format("{:>7.1f}%", 100 * dropped_share(loads, factor));
    lesson.say("{}", line);
  }
}

// Runs that were measured once: a training takes longer than a lesson.
void measured(Lesson& lesson) {
  lesson.section(
      "What a capacity costs: loss after 200 steps on text not seen, means of two seeds");
  const std::vector<CapacityRun> runs = stored_capacity_runs();
  std::string factors = fmt::format("{:<22}", "capacity factor"),
              losses = fmt::format("{:<22}", "loss");
  for (const double factor : {0.25, 0.5, 0.75, 1.0, 1.25, 2.0, 0.0}) {
    factors += fmt::format("{:>8}", factor == 0 ? "none" : fmt::format("{:g}", factor));
    losses += fmt::format("{:>8.3f}", mean_loss(runs, factor));
  }
  lesson.say("{}", factors);
  lesson.say("{}", losses);
}

// ---- over ranks ----

void plans(Lesson& lesson) {
  lesson.section("The plan of the picture");
  const std::vector<JourneyRank> ranks = expert_journey();
  for (int rank = 0; rank < journey_ranks; ++rank) {
    const JourneyRank& mine = ranks[static_cast<size_t>(rank)];
    std::string leaving, held;
    for (const JourneyRow& row : mine.leaving)
      leaving += fmt::format(" {}{}", static_cast<char>('a' + row.token), row.expert);
    for (const JourneyRow& row : mine.held)
      held += fmt::format(" {}{}", static_cast<char>('a' + row.token), row.expert);
    lesson.say("rank {}   leaving{}   to each rank {}   held after dispatch{}", rank, leaving,
               list(mine.to), held);
  }
}

// Forward and backward of random tokens, on `ep` ranks; y of all tokens and the router's gradient.
struct Outcome {
  std::vector<double> y, router;
};
Outcome outcome_on(int ep, const MoeOptions& options, int64_t n) {
  const int64_t C = options.router.width;
  const Tensor x = random_rows({n, C}, "x"), dy = random_rows({n, C}, "dy");
  std::vector<std::vector<double>> parts(static_cast<size_t>(ep));
  Outcome out;
  run_ranks(ep, [&](Communicator& world) {
    MoeMlp layer("mlp", options, {1, DType::f64}, {.ep = world});
    const int64_t begin = chunk_begin(n, ep, world.rank());
    const int64_t end = begin + chunk_count(n, ep, world.rank());
    Saved saved;
    parts[static_cast<size_t>(world.rank())] = layer.forward(x.rows(begin, end), saved).values();
    layer.backward_input(dy.rows(begin, end), saved);
    layer.backward_weight(saved);
    Tensor gradient = parameters_of(layer)[0]->gradient();
    world.all_reduce(gradient, ReduceOp::sum);
    if (world.rank() == 0) out.router = gradient.values();
  });
  for (const auto& part : parts) out.y.insert(out.y.end(), part.begin(), part.end());
  return out;
}

void same(Lesson& lesson, const Sizes& s) {
  lesson.section(fmt::format("37 tokens, {} experts, k = {}, on 1 to 8 ranks", s.experts, s.top_k));
  MoeOptions options = mixture(12, s.experts, s.top_k, 8);
  options.router.balance_loss = 0.01;
  lesson.say("{:<8}{:>24}{:>32}", "ranks", "y of token 36", "router's gradient");
  for (const int ep : {1, 2, 3, 4, 8}) {
    if (ep > s.experts) continue;
    const Outcome out = outcome_on(ep, options, 37);
    lesson.say("{:<8}{:>24}{:>32}", ep,
               list({out.y[36 * 12], out.y[36 * 12 + 1], out.y[36 * 12 + 2]}, "{:>8.4f}"),
               list({out.router[0], out.router[1], out.router[2]}, "{:>9.4f}"));
  }
}

void bytes(Lesson& lesson, const Sizes& s) {
  lesson.section(
      fmt::format("Bytes of rank 0 in one exchange: {} tokens per rank, k = {}, C = {}, f32",
                  s.tokens, s.top_k, s.width));
  lesson.say("{:<8}{:>12}{:>16}{:>16}{:>22}", "ranks", "formula", "uniform, sent", "random, sent",
             "rows of the busiest");
  for (const int ep : {2, 4, 8}) {
    if (ep > s.experts) continue;
    int64_t sent[2] = {};
    double busiest = 0;
    const MoeOptions options = mixture(s.width, s.experts, s.top_k, 8);
    for (const bool random : {false, true})
      run_ranks(ep, [&](Communicator& world) {
        const DeviceScope device(random ? Device::cpu : Device::meta);
        MoeMlp layer("mlp", options, {}, {.ep = world});
        Saved saved;
        const std::string name = fmt::format("tokens of {}", world.rank());
        layer.forward(random ? random_rows({s.tokens, s.width}, name, DType::f32)
                             : Tensor::empty({s.tokens, s.width}),
                      saved);
        if (world.rank() != 0) return;
        sent[random ? 1 : 0] = context().ledger.traffic("ep.dispatch").bytes_sent;
        std::vector<int64_t> held;
        for (int rank = 0; rank < ep; ++rank) {
          const DispatchPlan plan = dispatch_plan(saved.get("counts").span<int64_t>(), ep, rank);
          held.push_back(std::accumulate(plan.held.begin(), plan.held.end(), int64_t{0}));
        }
        busiest = load_factor(held);
      });
    const int64_t formula = uniform_expert_bytes_sent(s.tokens, s.top_k, s.width, ep, 4);
    lesson.say("{:<8}{:>12}{:>16}{:>16}{:>14.2f} x mean", ep, formula, sent[0], sent[1], busiest);
    lesson.number(fmt::format("sent.{}", ep), static_cast<double>(sent[1]));
  }
}

// Seconds of a forward pass of a mixture on 32 H100, on shapes alone.
Timed on_h100(const MoeOptions& options, int64_t n) {
  return run_on(cluster_named("h100x32"), 32, [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    MoeMlp layer("mlp", options, {1, DType::bf16}, {.ep = world});
    Saved saved;
    layer.forward(Tensor::empty({n, options.router.width}, DType::bf16), saved);
  });
}

void hops(Lesson& lesson) {
  lesson.section(
      "A forward pass straight and by two hops: 32 H100, 4 nodes, k = 8, C = 2048, bf16");
  lesson.say("{:<18}{:>22}{:>22}{:>16}", "", "straight", "two hops", "messages");
  for (const int64_t n : {8, 128, 4096}) {
    double seconds[2] = {};
    int64_t messages[2] = {};
    for (const bool two : {false, true}) {
      MoeOptions options = mixture(2048, 64, 8, 16);
      if (two) options.comm = {.algorithm = Algorithm::hierarchical, .node = 8};
      const Timed run = on_h100(options, n);
      seconds[two ? 1 : 0] = run.seconds();
      messages[two ? 1 : 0] = run.reports[0].ledger().traffic("ep.dispatch").messages_sent;
    }
    lesson.say("{:<18}{:>22}{:>22}{:>16}", fmt::format("{} tokens per rank", n),
               time_text(seconds[0]), time_text(seconds[1]),
               fmt::format("{} and {}", messages[0], messages[1]));
  }
}

void overlap(Lesson& lesson) {
  lesson.section("A forward pass on 32 H100 with a shared expert: 4096 tokens per rank, k = 8");
  MoeOptions options = mixture(7168, 256, 8, 2048);
  const double without = on_h100(options, 4096).seconds();
  options.shared_hidden = 2048;
  const double with = on_h100(options, 4096).seconds();
  const double alone = 4096.0 * 6 * 7168 * 2048 / chip_named("h100").bf16;
  lesson.say("without {}, with {}; the shared expert alone takes {}", time_text(without),
             time_text(with), time_text(alone));
  lesson.number("overlap.more", with - without);
}

void hot(Lesson& lesson) {
  lesson.section("A hot expert: 4 ranks with an expert and 64 tokens each, virtual clock");
  lesson.say("{:<28}{:>10}{:>20}{:>20}", "of the tokens, to expert 0", "seconds", "rank 0 computes",
             "rank 3 computes");
  for (const double share : {0.0, 0.25, 0.5, 1.0}) {
    const Timed run = hot_expert_run(share);
    const double to_expert_0 = share + (1 - share) / 4;
    lesson.say("{:<28}{:>8.3f} s{:>19.0f}%{:>19.0f}%", fmt::format("{:.1f}%", 100 * to_expert_0),
               run.seconds(), 100 * run.busy_share(0), 100 * run.busy_share(3));
    lesson.number(fmt::format("hot.{}", share), run.seconds());
  }
}

// ---- gradients over groups ----

// Gradients of one expert's weight on 4 ranks, ep = 2: the number [0] of experts.0.up.weight.
double expert_gradient(bool averaged) {
  const MoeOptions options = mixture(6, 4, 2, 4);
  const Tensor x = random_rows({8, 6}, "x"), dy = random_rows({8, 6}, "dy");
  double first = 0;
  run_ranks(4, [&](Communicator& world) {
    const int rank = world.rank();
    const Communicator ep = world.split(rank / 2, rank), copies = world.split(rank % 2, rank);
    MoeMlp layer("mlp", options, {1, DType::f64}, {.ep = ep, .routed = world});
    Saved saved;
    layer.forward(x.rows(2 * rank, 2 * rank + 2), saved);
    layer.backward_input(dy.rows(2 * rank, 2 * rank + 2), saved);
    layer.backward_weight(saved);
    const std::vector<ParameterPtr> own = parameters_of(layer);
    reduce_moe_gradients(own, copies, world);
    for (const ParameterPtr& each : own)
      if (rank == 0 && each->name == "mlp.experts.0.up.weight")
        first = each->grad.data<double>()[0] / (averaged ? 2 : 1);
  });
  return first;
}

void groups(Lesson& lesson) {
  lesson.section("Whose gradients: 4 ranks, ep = 2, dp = 2; experts.0.up.weight[0]");
  MoeMlp serial("mlp", mixture(6, 4, 2, 4), {1, DType::f64});
  Saved saved;
  serial.forward(random_rows({8, 6}, "x"), saved);
  serial.backward_input(random_rows({8, 6}, "dy"), saved);
  serial.backward_weight(saved);
  double expected = 0;
  for (const ParameterPtr& each : parameters_of(serial))
    if (each->name == "mlp.experts.0.up.weight") expected = each->grad.data<double>()[0];
  lesson.say("{:<44}{:>10}", "", "gradient");
  lesson.say("{:<44}{:>10.6f}", "1 rank", expected);
  lesson.say("{:<44}{:>10.6f}", "summed over the ranks with this expert", expert_gradient(false));
  lesson.say("{:<44}{:>10.6f}", "and averaged over ep", expert_gradient(true));
}

// ---- published models ----

struct Published {
  const char* name;
  int64_t E, k, shared, C, F, layers;  // layers with experts
};
constexpr Published published[] = {{"Mixtral 8x7B", 8, 2, 0, 4096, 14336, 32},
                                   {"Qwen3 235B", 128, 8, 0, 4096, 1536, 94},
                                   {"DeepSeek-V3", 256, 8, 1, 7168, 2048, 58}};

void models(Lesson& lesson) {
  lesson.section("Published models: weights of the experts, and what a token sends for a layer");
  lesson.say("{:<14}{:>6}{:>4}{:>8}{:>7}{:>7}{:>12}{:>12}{:>16}{:>14}", "", "E", "k", "shared", "C",
             "F", "held", "run", "FLOPs a weight", "dispatch");
  for (const Published& m : published) {
    const double each = 3.0 * static_cast<double>(m.C * m.F * m.layers);
    const double held = each * static_cast<double>(m.E + m.shared);
    const double run = each * static_cast<double>(m.k + m.shared);
    lesson.say("{:<14}{:>6}{:>4}{:>8}{:>7}{:>7}{:>10.1f} B{:>10.1f} B{:>16.2f}{:>14}", m.name, m.E,
               m.k, m.shared, m.C, m.F, 1e-9 * held, 1e-9 * run, 2 * run / held,
               console::bytes(static_cast<double>(2 * m.k * m.C)));
  }
  const Cluster machine = cluster_named("h100x64");
  lesson.say("{:<36}{:>6}{:>20}", "H100, ep 64: rows travel over", "GB/s", "hidden from F =");
  for (const auto& [name, other] : {std::pair{"NVLink", 1}, {"network card", 63}}) {
    const double bandwidth = 1 / machine.link(0, other).beta;
    lesson.say("{:<36}{:>6.0f}{:>20.0f}", name, 1e-9 * bandwidth,
               expert_hidden_width(machine.chip.bf16, bandwidth, 64, 2));
  }
}

// ---- mistakes and pictures ----

void mistakes(Lesson& lesson) {
  lesson.section("A mistake: more ranks than experts");
  try {
    run_ranks(4,
              [&](Communicator& world) { MoeMlp("mlp", mixture(4, 3, 1, 4), {}, {.ep = world}); });
  } catch (const std::exception& error) {
    lesson.say("{}", error.what());
  }
}

void draw(Lesson& lesson) {
  std::ofstream("expert_parallel.svg") << expert_parallel_svg();
  std::ofstream("expert_capacity.svg") << expert_capacity_svg();
  std::ofstream("expert_capacity_loss.svg") << capacity_loss_svg(stored_capacity_runs());
  std::ofstream("expert_hot.svg") << expert_hot_svg();
  lesson.say(
      "drawn in expert_parallel.svg, expert_capacity.svg, expert_capacity_loss.svg and "
      "expert_hot.svg");
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  int64_t drawn = 0;
  return run_lesson(argc, argv,
                    {"25", "Expert parallelism", "tokens travel to their experts, and back"},
                    [&](Lesson& lesson) {
                      if (sizes.top_k > sizes.experts)
                        fail(Where::current(), "{} experts of a token, but there are {}",
                             sizes.top_k, sizes.experts);
                      if (drawn != 0) draw(lesson);
                      more_weights(lesson);
                      router_by_hand(lesson);
                      rows_by_hand(lesson);
                      gradients(lesson);
                      plans(lesson);
                      same(lesson, sizes);
                      groups(lesson);
                      bytes(lesson, sizes);
                      hops(lesson);
                      overlap(lesson);
                      hot(lesson);
                      balance(lesson);
                      dropped(lesson);
                      measured(lesson);
                      models(lesson);
                      mistakes(lesson);
                      lesson.say("\nNext: write it yourself, ./yotta check 25");
                    },
                    {{"experts", "of the layer", &sizes.experts, 2, 64},
                     {"top-k", "experts of a token", &sizes.top_k, 1, 8},
                     {"tokens", "of a rank", &sizes.tokens, 1, 4096},
                     {"width", "of the layer", &sizes.width, 8, 512},
                     {"draw", "1: write the page's pictures into this folder", &drawn, 0, 1}});
}
