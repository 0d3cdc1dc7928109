#include "course/pictures/diloco_runs.hpp"

#include <functional>
#include <memory>
#include <utility>

#include "yotta/comm/run_on.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/async_diloco.hpp"
#include "yotta/parallel/ddp.hpp"

namespace yotta {

namespace {

constexpr int server = diloco_workers;  // the rank

TransformerConfig config_of(const DilocoSizes& s, uint64_t seed) {
  TransformerConfig config = gpt2_config(s.layers, s.width, s.heads, s.context, 256);
  config.seed = seed;
  return config;
}

// What follows an inner step; and what ends a run, so that all workers have the same weights.
struct Outer {
  std::function<void(int64_t steps)> after_step = [](int64_t) {};
  std::function<void()> end = [] {};
  // Is no mean on its way? How much of one has been sent is a matter of the threads' order.
  std::function<bool()> is_settled = [] { return true; };
};

Outer outer_of(const DilocoMethod& method, const std::vector<ParameterPtr>& all, Optimizer& inner,
               const Communicator& world, const Communicator& workers) {
  if (method.kind == DilocoKind::ddp) return {};
  if (method.kind == DilocoKind::diloco) {
    auto diloco = std::make_shared<Diloco>(inner, workers, method.options);
    return {[diloco](int64_t) { diloco->after_step(); }, [diloco] { diloco->synchronise(); },
            [diloco] {
              for (const OuterFragment& each : diloco->fragments())
                if (each.left > 0) return false;
              return true;
            }};
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

class Worker {
 public:
  Worker(const DilocoMethod& method, const DilocoSizes& s, uint64_t seed, const Communicator& world,
         const Communicator& workers)
      : sizes_(s),
        sums_(method.kind == DilocoKind::ddp),
        model_(config_of(s, seed)),
        all_(parameters(model_.stack())),
        inner_(all_),
        trainer_(model_.stack(), inner_, options_of(s), hooks(workers)),
        outer_(outer_of(method, all_, inner_, world, workers)),
        mine_(batch_shard(s.batch, workers.size(), workers.rank())),
        sent_before_(bytes_sent()) {}  // the first weights

  // Calls note(steps, weights) now and then, and at the end.
  template <class Note>
  void train(const Batches& text, Note note) {
    const int64_t rows = mine_.end - mine_.begin;
    const int64_t counted = (sums_ ? sizes_.batch : rows) * sizes_.context;
    for (int64_t step = 0; step < sizes_.steps; ++step) {
      const Batch batch = text.draw(step, mine_.begin, rows);
      trainer_.step(step, microbatches(batch.inputs, batch.targets, 1, mine_.begin), counted);
      outer_.after_step(step + 1);
      if (outer_.is_settled()) sent_ = bytes_sent() - sent_before_;
      if ((step + 1) % sizes_.every == 0 && step + 1 < sizes_.steps) note(step + 1, all_);
    }
    outer_.end();
    sent_ = bytes_sent() - sent_before_;
    note(sizes_.steps, all_);
  }
  // Bytes since the start; of means, those that have arrived.
  int64_t sent() const { return sent_; }

 private:
  static TrainOptions options_of(const DilocoSizes& s) {
    return {.schedule = {s.rate, s.rate / 10, s.steps / 20, s.steps}, .spike_factor = 0};
  }
  TrainHooks hooks(const Communicator& workers) {
    TrainHooks made;
    if (!sums_) return made;
    ddp_ = std::make_unique<Ddp>(all_, workers);
    made.after_backward = [this] { ddp_->finish(); };
    return made;
  }

  const DilocoSizes& sizes_;
  bool sums_;  // DDP: gradients of the mean over all tokens, not over this worker's own
  Transformer model_;
  std::vector<ParameterPtr> all_;
  AdamW inner_;
  std::unique_ptr<Ddp> ddp_;
  Trainer trainer_;
  Outer outer_;
  BatchShard mine_;
  int64_t sent_before_, sent_ = 0;
};

void work(const DilocoMethod& method, const DilocoSizes& s, const Batches& text, uint64_t seed,
          const Communicator& world, const Communicator& workers,
          std::vector<Snapshot>& snapshots) {
  Worker worker(method, s, seed, world, workers);
  if (method.kind == DilocoKind::asynchronous) world.barrier();  // with the server
  const double begin = seconds();
  worker.train(text, [&](int64_t steps, const std::vector<ParameterPtr>& all) {
    if (workers.rank() == 0)
      snapshots.push_back(snapshot_of(steps, worker.sent(), seconds() - begin, all));
  });
}

// The server's weights after some rounds of all workers, and when that was.
struct Served {
  int64_t step;
  double seconds;
  Tensor weights;  // (n): all, in the order of the slots
};

// Takes outer gradients in the order in which workers of one speed send them.
std::vector<Served> serve_workers(const DilocoMethod& method, const DilocoSizes& s, uint64_t seed,
                                  const Communicator& world) {
  const Transformer model(config_of(s, seed));
  AdamW slots(parameters(model.stack()));
  const std::vector<double> speeds(diloco_workers, 1);
  const int64_t H = method.options.inner, rounds = s.steps / H;
  AsyncOuter outer(cut_into_fragments(slots.slots(), 1).front().outer, {.delay = diloco_workers});
  world.barrier();
  const double begin = seconds();
  std::vector<Served> served = {{0, 0, outer.weights().clone()}};
  serve(world, async_arrivals(speeds, rounds * diloco_workers), outer, [&] {
    if (outer.taken() % diloco_workers == 0)
      served.push_back(
          {outer.taken() / diloco_workers * H, seconds() - begin, outer.weights().clone()});
  });
  return served;
}

// What the asynchronous run has learned is what the server holds when all workers have ended the
// same round: then as many tokens have been seen as in the other runs.
void take_served(const std::vector<Served>& served, Snapshot& snapshot) {
  const Served* last = &served.front();
  for (const Served& each : served)
    if (each.step <= snapshot.point.step) last = &each;
  if (last->step == snapshot.point.step) snapshot.point.seconds = last->seconds;
  int64_t begin = 0;
  for (Tensor& each : snapshot.weights) {
    const int64_t first = std::exchange(begin, begin + each.numel());
    each.copy_from(last->weights.rows(first, begin).reshape(each.shape()));
  }
}

double loss_of_weights(const std::vector<Tensor>& weights, const DilocoSizes& s,
                       const Batches& kept) {
  const Transformer model(config_of(s, 0));
  const std::vector<ParameterPtr> all = parameters(model.stack());
  for (size_t i = 0; i < all.size(); ++i) all[i]->value.copy_from(weights[i]);
  const Batch batch = kept.in_order(0, std::min<int64_t>(128, kept.sequences()));
  return evaluate(model.stack(), microbatches(batch.inputs, batch.targets, 16));
}

}  // namespace

std::vector<DilocoMethod> diloco_methods() {
  using enum DilocoKind;
  return {{"DDP", ddp, {}},
          {"plain means, H = 50", diloco, {.inner = 50, .learning_rate = 1, .momentum = 0}},
          {"DiLoCo, H = 50", diloco, {.inner = 50}},
          {"DiLoCo, H = 200", diloco, {.inner = 200}},
          {"streaming, H = 50", diloco, {.inner = 50, .fragments = 5, .overlap = 5, .keep = 0.5}},
          {"8 bits, H = 50", diloco, {.inner = 50, .bits = 8}},
          {"4 bits, H = 50", diloco, {.inner = 50, .bits = 4}},
          {"asynchronous, H = 50", asynchronous, {.inner = 50}},
          {"gossip, H = 50", gossip, {.inner = 50}},
          {"DDP, ocean", ddp, {}, true},
          {"DiLoCo, H = 50, ocean", diloco, {.inner = 50}, true}};
}

DilocoCurve run_diloco(const DilocoMethod& method, const DilocoSizes& sizes,
                       const std::string& text, uint64_t seed) {
  const TextSplit split = split_text(text, sizes.context);
  const Batches drawn(split.train, sizes.context, seed), kept(split.validation, sizes.context, 0);
  std::vector<Snapshot> snapshots;
  std::vector<Served> served;
  // Two chips in each city; four cities, or four on each side of an ocean.
  const Cluster machine = cluster_named(method.ocean ? "cities2x8" : "cities2x4");
  std::vector<int> chips = {0, 2, 4, 6, 1};
  if (method.ocean) chips = {0, 2, 8, 10, 1};
  run_on(machine, diloco_workers + 1,
         [&](Communicator& world) {
           const Communicator workers = world.split(world.rank() < server ? 0 : -1, world.rank());
           if (world.rank() < server)
             work(method, sizes, drawn, seed, world, workers, snapshots);
           else if (method.kind == DilocoKind::asynchronous)
             served = serve_workers(method, sizes, seed, world);
         },
         {.trace = false, .chips = chips});
  DilocoCurve curve{method.name, {}};
  for (Snapshot& each : snapshots) {
    if (!served.empty()) take_served(served, each);
    each.point.loss = loss_of_weights(each.weights, sizes, kept);
    curve.points.push_back(each.point);
  }
  return curve;
}

}  // namespace yotta
