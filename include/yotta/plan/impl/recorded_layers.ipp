// The bodies of plan/recorded_layers.hpp.
#pragma once

#include "yotta/plan/recorded_layers.hpp"

#include "yotta/nn/elementwise.hpp"
#include "yotta/parallel/parallelize.hpp"

namespace yotta {

YOTTA_INLINE LayerQuestion layer_question(const Chip& chip, const DescribedStep& step,
                                          const LayerSizes& z, const PlanGroups& groups) {
  LayerQuestion q;
  q.config = step.config, q.config.layers = 1, q.config.mixture.dense_layers = 0;
  q.tp = step.shape.tp, q.cp = step.shape.cp, q.ep = step.shape.ep, q.B = z.B, q.T = z.T;
  q.one_table = step.config.tied && step.options.pipeline().stages(step.shape.pp) == 1;
  q.sequence_parallel = step.options.shares_tokens();
  q.keep_gathered = step.options.keep_gathered, q.pieces = step.options.pieces;
  q.context = step.options.context, q.wide_loss = step.wide_loss;
  q.loss_tokens = step.options.loss_tokens, q.technique = step.technique;
  q.chip = chip, q.efficiency = step.efficiency;
  const PlanGroup none;
  const PlanGroup& routed = step.config.mixture.experts > 0 ? groups.routed : none;
  std::copy_n(std::array{groups.tp, groups.cp, groups.ep, routed}.begin(), 4, q.groups);
  return q;
}

namespace detail {

inline constexpr const char* end_of_part = "end of a part";
inline constexpr size_t layer_kinds = 3, layer_parts = 9;  // F of all, then I and W of each

// For whom the ranks of a question's group wait.
constexpr size_t kind_of_group(size_t group) { return std::min(group, size_t{2}); }
static_assert(static_cast<size_t>(Exposed::ep) == 2);

// The chips of a question: axis after axis, each on its own links. Links of the kind `slowed` take
// twice as long for a byte.
inline Cluster cluster_of(const LayerQuestion& q, size_t slowed = exposed_kinds) {
  Cluster made{"the links of a layer", q.chip, {{"chip", 1, 0, 0}}, {}, 0};
  int chips = 1;
  for (size_t i = 0; i < 4; ++i) {
    const PlanGroup& group = q.groups[i];
    if (group.p == 1) continue;
    const double slow = kind_of_group(i) == slowed ? 2 : 1;
    const auto add = [&](int ranks, const Link& link) {
      made.levels.push_back({"group", chips * ranks, link.alpha, link.beta * slow});
    };
    if ((group.port() == 0 || group.node() > 1) && made.levels[0].chips == 1) made.levels.clear();
    for (const GroupLevel& level : group.inner) add(level.ranks, level.link);
    add(group.p, group.link);
    chips *= group.p;
    made.gamma = group.gamma;
  }
  return made;
}

// Runs the three layers on this rank.
class LayerRecorder {
 public:
  LayerRecorder(const LayerQuestion& q, Communicator& self) : q_(q) {
    MeshShape shape;
    shape.tp = q.tp, shape.cp = q.cp, shape.ep = q.ep;
    mesh_.emplace(Mesh::mirrored(self, shape));
    std::vector<int> routed;
    for (int i = 0; i < q.groups[3].p; ++i) routed.push_back(i * static_cast<int>(shape.ranks()));
    routed_ = self.mirrored(routed).named("routed");
    make_layers();
  }

  // One microbatch. The first makes gradients, in the second they are there.
  void run(std::array<LayerFigures, layer_kinds>& figures) {
    BatchPosition position;
    position.training = true;
    position.positions = context_positions(q_.T * q_.cp, (*mesh_)[Axis::cp]);
    std::vector<Saved> saved;
    for (size_t i = 0; i < layer_kinds; ++i) saved.emplace_back(position);
    const Tensor ids = Tensor::empty({q_.B, q_.T}, DType::i32);
    Tensor flow = ids;
    for (size_t i = 0; i < layer_kinds; ++i) flow = forward(i, flow, ids, saved[i], figures[i]);
    for (size_t i = layer_kinds; i-- > 0;) {
      flow = backward_input(i, flow, saved[i], figures[i]);
      backward_weight(i, saved[i], figures[i]);
    }
  }

 private:
  void make_layers() {
    NdOptions options;
    options.sequence_parallel = q_.sequence_parallel, options.keep_gathered = q_.keep_gathered;
    options.pieces = q_.pieces, options.context = q_.context, options.sequence = q_.T * q_.cp;
    const auto make = [&](int64_t first, int64_t last) {
      models_.push_back(as_shapes([&] {
        auto model = std::make_unique<Transformer>(q_.config, first, last);
        parallelize(*model, *mesh_, options, routed_);
        if (q_.technique != nullptr) q_.technique(*model);
        return model;
      }));
      materialise(parameters(models_.back()->stack()));
      wrapped_.push_back(checkpointed(models_.back()->stack(), {.what = q_.recompute}));
      for (const LayerPtr& layer : wrapped_.back()) layers_.push_back(layer.get());
    };
    if (q_.one_table)
      make(0, layer_kinds);
    else
      for (int64_t i = 0; i < static_cast<int64_t>(layer_kinds); ++i) make(i, i + 1);
    loss_ = loss_on(*mesh_, q_.config, models_.back()->head(), q_.loss_tokens);
  }

  Tensor forward(size_t i, const Tensor& x, const Tensor& targets, Saved& saved,
                 LayerFigures& figures) {
    const bool is_head = i + 1 == layer_kinds;
    if (is_head) make_gradient_of_loss();
    begin();
    Tensor y = layers_[i]->forward(x, saved.child(layers_[i]->name()));
    if (is_head) {
      if (q_.wide_loss) widen(y);
      Tensor dlogits;
      loss_(std::move(y), targets, 1, &dlogits);
      y = std::move(dlogits);
    }
    figures.forward_peak = end();
    figures.in = i == 0 ? 0 : bytes(x), figures.out = is_head ? 0 : bytes(y);
    figures.saved = live() + figures.in - figures.out;
    return y;
  }
  // A loss in chunks makes the gradient of the output matrix in F: counted as if W had made it.
  void make_gradient_of_loss() {
    made_in_loss_ = 0;
    if (q_.loss_tokens == 0) return;
    Parameter& weight = (*models_.back()->head()->out)[0].weight_parameter();
    if (!weight.grad.defined()) made_in_loss_ = bytes(weight.gradient());
  }
  // The logits in f32, the logarithms of their probabilities, and the gradient of each.
  static void widen(const Tensor& logits) {
    for (int pass = 0; pass < 3; ++pass) charge(copy_cost("cat", DType::f32, logits.numel()));
    Tensor::empty({3 * logits.numel()}, DType::f32);
  }
  Tensor backward_input(size_t i, Tensor& dy, Saved& saved, LayerFigures& figures) {
    begin();
    dy = layers_[i]->backward_input(dy, saved.child(layers_[i]->name()));
    figures.input_peak = end();
    figures.kept = figures.saved + live() + figures.out - figures.in;
    return std::move(dy);
  }
  // The most that is held, from one ready gradient to the next: with those before, or without.
  void backward_weight(size_t i, Saved& saved, LayerFigures& figures) {
    begin();
    std::vector<ParameterPtr> all;
    layers_[i]->add_parameters(all);
    std::vector<ParameterPtr> without = all;  // a gradient
    std::map<const Parameter*, WeightReady> ready;
    double made = 0;
    int64_t waiting = 0;
    const auto look = [&] {
      const double most = peak() + (i + 1 == layer_kinds ? made_in_loss_ : 0);
      figures.growing_peak = std::max(figures.growing_peak, most);
      figures.passing_peak = std::max(figures.passing_peak, most - made);
      memory().reset_peaks();
      return most - made;
    };
    for (const ParameterPtr& each : all)
      each->on_grad_ready = [&, each](Parameter&) {
        WeightReady& weight = ready[each.get()];
        weight = {each->value.numel(), is_expert_parameter(*each), each->name == tied_table};
        weight.order = std::ssize(ready) - 1, weight.passing = look();
        weight.waiting = waiting += newly_made(without) - each->grad.numel();
        made += bytes(each->grad);
      };
    layers_[i]->backward_weight(saved.child(layers_[i]->name()));
    look();
    end();
    for (size_t n = all.size(); n-- > 0;) {
      all[n]->on_grad_ready = nullptr;
      if (const auto found = ready.find(all[n].get()); found != ready.end())
        figures.weights.push_back(found->second);
    }
  }

  // Numbers of the gradients that have been made since. `without`: those that had none.
  static int64_t newly_made(std::vector<ParameterPtr>& without) {
    int64_t numbers = 0;
    std::erase_if(without, [&](const ParameterPtr& each) {
      if (each->grad.defined()) numbers += each->grad.numel();
      return each->grad.defined();
    });
    return numbers;
  }
  static double bytes(const Tensor& x) { return static_cast<double>(x.nbytes()); }
  static MemoryCount& memory() { return *context().ledger.memory(); }
  double live() const { return static_cast<double>(memory().live() - before_); }
  void begin() {
    memory().reset_peaks();
    before_ = memory().live();
  }
  // The most that was live since begin(), above what there was then.
  double peak() const { return static_cast<double>(memory().peak() - before_); }
  double end() const {
    charge({end_of_part, DType::f32, 0, 0, 0});
    return peak();
  }

  const LayerQuestion& q_;
  std::optional<Mesh> mesh_;
  Communicator routed_;
  std::vector<std::unique_ptr<Transformer>> models_;
  std::vector<std::vector<LayerPtr>> wrapped_;
  std::vector<Layer*> layers_;
  LossOf loss_;
  double made_in_loss_ = 0;
  int64_t before_ = 0;
};

// Of a message's communicator.
inline Exposed exposed_kind(std::string_view axes) {
  return axes == "tp" ? Exposed::tp : axes == "cp" ? Exposed::cp : Exposed::ep;
}

// Adds the events of each part to its time. A part ends at its mark.
inline void add_events(const Trace& trace, const Cluster& cluster,
                       std::array<PartTime*, layer_parts> parts) {
  const std::vector<TraceEvent>& events = trace.ranks[0];
  std::array<double, layer_parts> ends = {};
  size_t part = 0;
  for (const TraceEvent& event : events)
    if (event.lane == compute_lane && event.name == end_of_part && part < layer_parts)
      ends[part++] = event.begin;
  const auto of = [&](const TraceEvent& event) {
    return static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), event.begin) -
                               ends.begin());
  };
  for (const TraceEvent& event : events) {
    const size_t at = of(event);
    if (at == layer_parts || event.name == end_of_part) continue;
    PartTime& time = *parts[at];
    if (event.lane == compute_lane && event.kind == EventKind::op) time.computed += event.seconds();
    if (event.lane == compute_lane && event.kind == EventKind::wait)
      time[exposed_kind(axes_of(trace, 0, trace.at(event.cause)))] += event.seconds();
    if (event.kind == EventKind::send)
      time.sent[static_cast<size_t>(exposed_kind(axes_of(trace, 0, event)))] +=
          static_cast<double>(event.bytes) * cluster.link(0, event.peer - first_image).beta;
  }
}

// A clock of kernels that writes down what it is asked for, part by part.
class RecordingClock : public KernelClock {
 public:
  using KernelClock::KernelClock;
  void op(const OpCost& cost) override {
    if (std::string_view(cost.name) == end_of_part)
      parts_.emplace_back();
    else
      parts_.back().push_back(cost);
    KernelClock::op(cost);
  }
  const std::vector<OpCost>& part(size_t i) const { return parts_[i]; }

 private:
  std::vector<std::vector<OpCost>> parts_ = {{}};
};

// Recomputation by operators, of a block's forward pass up to its last product: attention's outputs
// stay, and those of every second product from the first on; all else runs again. Beside them the
// block's input and its output stay, which is the last product's. What sequence parallelism gathers
// is half of what it sends.
inline void add_operators(const std::vector<OpCost>& ops, const LayerQuestion& q,
                          LayerFigures& block) {
  const auto is_linear = [](const OpCost& op) { return std::string_view(op.name) == "linear"; };
  const auto last = std::find_if(ops.rbegin(), ops.rend(), is_linear).base();
  block.operators = {}, block.operators_kept = block.in + block.out;
  bool stays = false;
  int64_t products = 0;
  for (auto op = ops.begin(); op + 1 < last; ++op) {
    const std::string_view name = op->name;
    if (is_linear(*op)) stays = ++products % 2 == 1;
    const bool is_attention = name.find("attention") != name.npos;
    if (is_attention || (is_linear(*op) && stays)) block.operators_kept += op->bytes_written;
    if (is_attention || ((is_linear(*op) || name == "add_bias") && stays)) continue;
    block.operators.computed += kernel_seconds(q.chip, q.efficiency, *op);
  }
  if (q.sequence_parallel) block.operators[Exposed::tp] = block.forward.exposed[0] / 2;
}

// The layers' times on a cluster, and with `figures` their bytes and weights.
inline void run_layers(const LayerQuestion& q, const Cluster& cluster,
                       std::array<LayerFigures, layer_kinds>& figures) {
  ClockOptions clock;
  clock.observed = false;
  std::vector<OpCost> forward_of_block;
  const auto body = [&](Communicator& self) {
    const DeviceScope meta(Device::meta);
    LayerRecorder recorder(q, self);
    RecordingClock kernels(*context().clock, {q.chip, q.efficiency});
    CostSink* const before = std::exchange(context().clock, &kernels);
    recorder.run(figures);
    forward_of_block = kernels.part(1);
    context().clock = nullptr;
    std::array<LayerFigures, layer_kinds> again;
    recorder.run(again);
    for (size_t i = 0; i < layer_kinds; ++i) figures[i].weight_peak = again[i].growing_peak;
    context().clock = before;
  };
  const Timed run = run_on(cluster, 1, body, clock);
  std::array<PartTime*, layer_parts> parts;
  for (size_t i = 0; i < layer_kinds; ++i) {
    parts[i] = &figures[i].forward;
    parts[layer_kinds + 2 * (layer_kinds - 1 - i)] = &figures[i].input;
    parts[layer_kinds + 2 * (layer_kinds - 1 - i) + 1] = &figures[i].weight;
  }
  add_events(run.trace, cluster, parts);
  add_operators(forward_of_block, q, figures[1]);
}

// How much longer each part takes if others use the port of its messages too. A part that waits for
// them waits as long again; one that computes meanwhile is run to see.
inline void add_slowed(const LayerQuestion& q, size_t kind,
                       std::array<LayerFigures, layer_kinds>& figures) {
  constexpr std::array parts = {&LayerFigures::forward, &LayerFigures::input,
                                &LayerFigures::weight};
  bool all_wait = true;
  for (LayerFigures& layer : figures)
    for (const auto part : parts) {
      PartTime& time = layer.*part;
      time.slowed[kind] = time.sent[kind];
      all_wait = all_wait && time.exposed[kind] >= time.sent[kind];
    }
  if (all_wait) return;
  std::array<LayerFigures, layer_kinds> slowed;
  run_layers(q, cluster_of(q, kind), slowed);
  for (size_t layer = 0; layer < layer_kinds; ++layer)
    for (const auto part : parts)
      (figures[layer].*part).slowed[kind] =
          (slowed[layer].*part).seconds() - (figures[layer].*part).seconds();
}

}  // namespace detail

YOTTA_INLINE RecordedLayers record_layers(const LayerQuestion& q) {
  std::array<LayerFigures, detail::layer_kinds> figures;
  detail::run_layers(q, detail::cluster_of(q), figures);
  for (size_t kind = 0; kind <= detail::kind_of_group(3); ++kind)
    detail::add_slowed(q, kind, figures);
  if (q.one_table) {
    for (const WeightReady& each : figures[0].weights)
      if (each.table) figures[2].table = each.numbers, figures[0].table = -each.numbers;
  }
  return {figures[0], figures[1], figures[2]};
}

YOTTA_INLINE const RecordedLayers& LayerRecords::of(const LayerQuestion& question) {
  const auto answers = [&]() -> Answers& {
    return known_[{question.tp, question.cp, question.ep, question.B, question.T}];
  };
  const auto known = [&]() -> const RecordedLayers* {
    for (const auto& [asked, answer] : answers())
      if (asked == question) return &answer;
    return nullptr;
  };
  {
    const std::lock_guard lock(mutex_);
    if (const RecordedLayers* const found = known()) return *found;
  }
  RecordedLayers made = record_layers(question);
  const std::lock_guard lock(mutex_);
  if (const RecordedLayers* const found = known()) return *found;
  return answers().emplace_back(question, std::move(made)).second;
}

}  // namespace yotta
