#include "course/shared/diloco_runs.hpp"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <sstream>

#include "yotta/comm/run_on.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/model/transformer.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/parallel/async_diloco.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/gossip_diloco.hpp"

namespace yotta {

namespace {

constexpr int server = diloco_workers;  // the rank

TransformerConfig config_of(const DilocoSizes& s, uint64_t seed) {
  TransformerConfig config = gpt2_config(s.layers, s.width, s.heads, s.context, 256);
  config.seed = seed;
  return config;
}

// What follows an inner step, and what ends a run.
struct Outer {
  std::function<void(int64_t steps)> after_step = [](int64_t) {};
  std::function<void()> end = [] {};
};

Outer outer_of(const DilocoMethod& method, const std::vector<ParameterPtr>& all, Optimizer& inner,
               const Communicator& world, const Communicator& workers) {
  if (method.kind == DilocoKind::ddp) return {};
  if (method.kind == DilocoKind::diloco) {
    auto diloco = std::make_shared<Diloco>(inner, workers, method.options);
    return {[diloco](int64_t) { diloco->after_step(); }, [diloco] { diloco->synchronise(); }};
  }
  const int64_t H = method.options.inner;
  if (method.kind == DilocoKind::gossip) {
    auto gossip = std::make_shared<GossipDiloco>(inner, workers, GossipOptions{.inner = H});
    return {[gossip](int64_t) { gossip->after_step(); }, [gossip] { gossip->mean_of_workers(); }};
  }
  broadcast_parameters(all, workers);
  auto worker = std::make_shared<AsyncWorker>(inner, world);
  return {[worker, H](int64_t steps) {
            if (steps % H == 0) worker->exchange();
          },
          [] {}};
}

// Worker 0's weights after some steps, and what had been sent by then.
struct Snapshot {
  DilocoPoint point;
  std::vector<Tensor> weights;
};

int64_t bytes_sent() { return context().ledger.total_traffic().bytes_sent; }
double seconds() { return context().clock->now(compute_lane).end; }

Snapshot snapshot_of(int64_t step, int64_t bytes, double seconds,
                     const std::vector<ParameterPtr>& all) {
  Snapshot made{{step, static_cast<double>(bytes) / 1e6, seconds, 0}, {}};
  for (const ParameterPtr& each : all) made.weights.push_back(each->value.clone());
  return made;
}

void work(const DilocoMethod& method, const DilocoSizes& s, const Batches& text, uint64_t seed,
          const Communicator& world, const Communicator& workers,
          std::vector<Snapshot>& snapshots) {
  const Transformer model(config_of(s, seed));
  const std::vector<ParameterPtr> all = parameters(model.stack());
  AdamW inner(all);
  std::unique_ptr<Ddp> ddp;
  TrainHooks hooks;
  if (method.kind == DilocoKind::ddp) {
    ddp = std::make_unique<Ddp>(all, workers);
    hooks.after_backward = [&] { ddp->finish(); };
  }
  Trainer trainer(model.stack(), inner,
                  {.schedule = {s.rate, s.rate / 10, s.steps / 20, s.steps}, .spike_factor = 0},
                  hooks);
  const Outer outer = outer_of(method, all, inner, world, workers);
  const BatchShard mine = batch_shard(s.batch, workers.size(), workers.rank());
  const int64_t rows = mine.end - mine.begin;
  const int64_t counted = (method.kind == DilocoKind::ddp ? s.batch : rows) * s.context;
  const int64_t bytes = bytes_sent();  // of the first weights
  const double begin = seconds();
  for (int64_t step = 0; step < s.steps; ++step) {
    const Batch batch = text.draw(step, mine.begin, rows);
    trainer.step(step, microbatches(batch.inputs, batch.targets, 1, mine.begin), counted);
    outer.after_step(step + 1);
    if (workers.rank() == 0 && (step + 1) % s.every == 0)
      snapshots.push_back(snapshot_of(step + 1, bytes_sent() - bytes, seconds() - begin, all));
  }
  outer.end();
}

// Takes outer gradients in the order in which workers of one speed send them.
void serve_workers(const DilocoMethod& method, const DilocoSizes& s, uint64_t seed,
                   const Communicator& world) {
  const Transformer model(config_of(s, seed));
  AdamW slots(parameters(model.stack()));
  const std::vector<double> seconds(diloco_workers, 1);
  const int64_t rounds = s.steps / method.options.inner;
  AsyncOuter outer(cut_into_fragments(slots.slots(), 1).front().outer, {.delay = diloco_workers});
  serve(world, async_arrivals(seconds, rounds * diloco_workers), outer);
}

double loss_of_weights(const std::vector<Tensor>& weights, const DilocoSizes& s,
                       const Batches& kept) {
  const Transformer model(config_of(s, 0));
  const std::vector<ParameterPtr> all = parameters(model.stack());
  for (size_t i = 0; i < all.size(); ++i) all[i]->value.copy_from(weights[i]);
  const Batch batch = kept.in_order(0, std::min<int64_t>(32, kept.sequences()));
  return evaluate(model.stack(), microbatches(batch.inputs, batch.targets, 4));
}

}  // namespace

std::vector<DilocoMethod> diloco_methods() {
  using enum DilocoKind;
  return {{"DDP", ddp, {}},
          {"plain means, H = 50", diloco, {.inner = 50, .learning_rate = 1, .momentum = 0}},
          {"DiLoCo, H = 50", diloco, {.inner = 50}},
          {"DiLoCo, H = 200", diloco, {.inner = 200}},
          {"streaming, H = 50", diloco, {.inner = 50, .fragments = 5, .overlap = 5, .keep = 0.5}},
          {"4 bits, H = 50", diloco, {.inner = 50, .bits = 4}},
          {"asynchronous, H = 50", asynchronous, {.inner = 50}},
          {"gossip, H = 50", gossip, {.inner = 50}}};
}

DilocoCurve run_diloco(const DilocoMethod& method, const DilocoSizes& sizes, uint64_t seed) {
  const Text text = course_text(YOTTA_SOURCE_DIR);
  const TextSplit split = split_text(text.bytes, sizes.context);
  const Batches drawn(split.train, sizes.context, seed), kept(split.validation, sizes.context, 0);
  std::vector<Snapshot> snapshots;
  run_on(cluster_named("cities2x4"), diloco_workers + 1,
         [&](Communicator& world) {
           const Communicator workers = world.split(world.rank() < server ? 0 : -1, world.rank());
           if (world.rank() < server)
             work(method, sizes, drawn, seed, world, workers, snapshots);
           else if (method.kind == DilocoKind::asynchronous)
             serve_workers(method, sizes, seed, world);
         },
         {.trace = false, .chips = {0, 2, 4, 6, 1}});
  DilocoCurve curve{method.name, {}};
  for (Snapshot& each : snapshots) {
    each.point.loss = loss_of_weights(each.weights, sizes, kept);
    curve.points.push_back(each.point);
  }
  return curve;
}

std::string diloco_csv(const std::vector<DilocoCurve>& curves) {
  std::string csv = "method;step;MB sent by worker 0;seconds;loss\n";
  for (const DilocoCurve& curve : curves)
    for (const DilocoPoint& p : curve.points)
      csv += fmt::format("{};{};{:.4f};{:.4f};{:.4f}\n", curve.name, p.step, p.megabytes, p.seconds,
                         p.loss);
  return csv;
}

std::vector<DilocoCurve> read_diloco_csv(const std::string& text) {
  std::vector<DilocoCurve> curves;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);  // the header
  while (std::getline(lines, line)) {
    const size_t end = line.find(';');
    DilocoPoint point{};
    if (end == line.npos || std::sscanf(line.c_str() + end, ";%ld;%lf;%lf;%lf", &point.step,
                                        &point.megabytes, &point.seconds, &point.loss) != 4)
      fail(Where::current(), "'{}' is no point of a curve: a name and four numbers", line);
    const std::string name = line.substr(0, end);
    if (curves.empty() || curves.back().name != name) curves.push_back({name, {}});
    curves.back().points.push_back(point);
  }
  return curves;
}

}  // namespace yotta
