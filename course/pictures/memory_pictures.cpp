#include "course/pictures/memory_pictures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "course/pictures/svg.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/model/diagnose.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/activation_checkpointing.hpp"
#include "yotta/parallel/fsdp.hpp"

namespace yotta {
namespace {

double now() { return context().clock->now(compute_lane).end; }

// ---- the life of FSDP's units ------------------------------------------------------------------

// Calls see(what) where it stands, and changes nothing.
class Probe : public Layer {
 public:
  Probe(const std::string& name, std::function<void(char)> see)
      : Layer(name), see_(std::move(see)) {}
  Tensor forward(const Tensor& x, Saved&) override { return see_('F'), x; }
  Tensor backward_input(const Tensor& dy, Saved&) override { return see_('I'), dy; }
  void backward_weight(Saved&) override { see_('W'); }
  void add_parameters(std::vector<ParameterPtr>&) override {}

 private:
  std::function<void(char)> see_;
};

// One rank's pass. A unit is a probe, a linear layer and another probe: the first one that is
// reached begins F, I or W.
class FsdpWatch {
 public:
  FsdpWatch(FsdpLife& life, const LinearNetConfig& net) : life_(life) {
    for (LayerPtr& layer : make_linear_net(net)) {
      const size_t u = life_.units.size();
      life_.units.emplace_back();
      const auto see = [this, u](char what) { reached(u, what); };
      model_.push_back(std::make_unique<Probe>(fmt::format("before {}", u), see));
      model_.push_back(std::move(layer));
      model_.push_back(std::make_unique<Probe>(fmt::format("after {}", u), see));
    }
  }

  void pass(Communicator& world, Tensor x, bool prefetch) {
    Fsdp fsdp(model_, world,
              {.layers_per_unit = 3, .prefetch = prefetch, .comm = {.algorithm = Algorithm::ring}});
    fsdp_ = &fsdp;
    for (size_t u = 0; u < life_.units.size(); ++u)
      for (const ParameterShard& shard : fsdp.units()[u].shards())  // when a reduction is finished
        shard.parameter->on_grad_ready = [this, u](Parameter&) {
          life_.units[u].gradients.end = life_.units[u].sum.end = now();
        };
    Saved saved({0, 0, 0, 0, true});
    const Layers stack = fsdp.stack();
    for (const LayerPtr& layer : stack) {
      x = layer->forward(x, saved.child(layer->name()));
      look();
    }
    for (size_t i = stack.size(); i-- > 0;) {
      Saved& own = saved.child(stack[i]->name());
      x = stack[i]->backward_input(x, own);
      look();
      stack[i]->backward_weight(own);
      life_.units[i].sum.begin = look();
    }
    fsdp.finish();
    life_.seconds = look();
    life_.ledger_peak = context().ledger.memory()->peak(MemoryKind::buffers);
  }

 private:
  // Notes which units have become whole, or begun to, and which have been dropped. The unit that
  // computes was asked for when the one before had ended, at the last look; any other was asked for
  // just now.
  double look(std::optional<size_t> computes = {}) {
    const double time = now();
    for (size_t u = 0; u < life_.units.size(); ++u) {
      std::vector<Span>& whole = life_.units[u].whole;
      const bool was = !whole.empty() && whole.back().end < 0;
      const bool is = fsdp_->units()[u].is_gathered();
      if (is && !was) whole.push_back({u == computes ? last_ : time, -1});
      if (!is && was) whole.back().end = time;
    }
    return last_ = time;
  }

  void reached(size_t u, char what) {
    FsdpLife::Unit& unit = life_.units[u];
    const double time = look(u);
    if (!unit.computing.empty() && unit.computing.back().what == what) {
      unit.computing.back().when.end = time;
      return;
    }
    unit.computing.push_back({what, {time, time}});
    if (what == 'W') unit.gradients.begin = time;
  }

  FsdpLife& life_;
  double last_ = 0;
  std::vector<LayerPtr> model_;
  Fsdp* fsdp_ = nullptr;
};

// What the units hold at each moment: weights, gradients, and from the reduction on this rank's
// part of the sum.
std::vector<Held> borrowed(const FsdpLife& life) {
  std::map<double, int64_t> changes;
  const auto held = [&](const Span& when, int64_t bytes) {
    changes[when.begin] += bytes;
    changes[when.end] -= bytes;
  };
  for (const FsdpLife::Unit& unit : life.units) {
    for (const Span& whole : unit.whole) held(whole, life.unit_bytes);
    held(unit.gradients, life.unit_bytes);
    held(unit.sum, life.unit_bytes / life.ranks);
  }
  std::vector<Held> all;
  int64_t bytes = 0;
  for (const auto& [time, change] : changes) {
    if (!all.empty()) all.back().when.end = time;
    all.push_back({{time, time}, bytes += change});
  }
  return all;
}

// The `count` collectives of one label on rank 0's network lane, which all receive equally often.
std::vector<Span> collectives(const Trace& trace, std::string_view label, size_t count) {
  std::vector<Span> received, all;
  for (const TraceEvent& event : trace.ranks[0])
    if (event.kind == EventKind::recv && event.name == label)
      received.push_back({event.begin, event.end});
  const size_t each = received.size() / count;
  for (size_t i = 0; i < count; ++i)
    all.push_back({received.at(i * each).begin, received.at((i + 1) * each - 1).end});
  return all;
}

// ---- drawing -----------------------------------------------------------------------------------

constexpr const char* ink = "#222";

std::string text(double x, double y, const std::string& words, const char* anchor = "start",
                 int size = 11, bool bold = false) {
  return fmt::format(
      "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"{}\" fill=\"{}\" "
      "font-size=\"{}\"{}>{}</text>\n",
      x, y, anchor, ink, size, bold ? " font-weight=\"bold\"" : "", words);
}
std::string box(double x, double y, double width, double height, const char* fill,
                const char* more = "") {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"{}/>\n", x, y,
      width, height, fill, more);
}
std::string line(double x0, double y0, double x1, double y1, const char* more = "") {
  return fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"#555\" fill=\"none\"{}/>\n",
                     x0, y0, x1, y1, more);
}
std::string page(int height, const std::string& title, const std::string& caption,
                 const std::string& inside) {
  return svg::head(900, height, title) + svg::sheet(900, height) +
         text(20, 26, title, "start", 15, true) + text(20, 44, caption, "start", 12) + inside +
         "</svg>\n";
}

// Places of seconds between the page's margins.
struct TimeAxis {
  double left, right, seconds;
  double at(double time) const { return left + (right - left) * time / seconds; }

  std::string ticks(double y, double each, double unit, const char* name) const {
    std::string svg = line(left, y, right, y);
    for (double time = 0; time <= seconds * 1.0001; time += each)
      svg += line(at(time), y, at(time), y + 4) +
             text(at(time), y + 16, fmt::format("{:.0f}", time / unit), "middle", 10);
    return svg + text((left + right) / 2, y + 31, name, "middle");
  }
};

// The area under what is held; `full` bytes are `height` high.
std::string area(const std::vector<Held>& all, const TimeAxis& axis, double base, double height,
                 double full, const char* fill) {
  std::string path = fmt::format("M{:.1f} {:.1f}", axis.at(0), base);
  for (const Held& held : all) {
    if (held.when.end <= held.when.begin) continue;
    const double y = base - height * static_cast<double>(held.bytes) / full;
    path += fmt::format("L{:.1f} {:.1f}L{:.1f} {:.1f}", axis.at(held.when.begin), y,
                        axis.at(held.when.end), y);
  }
  return fmt::format("<path d=\"{}L{:.1f} {:.1f}Z\" fill=\"{}\" stroke=\"#333\"/>\n", path,
                     axis.at(all.back().when.end), base, fill);
}

constexpr const char *pale_blue = "#d6e4f5", *mid_blue = "#9cc2ea", *blue = "#6fa3d8";
constexpr const char *pale_orange = "#fbe3cf", *mid_orange = "#f5bf8e", *orange = "#e89a55";

// A unit's two lanes: weights above, gradients below.
std::string unit_row(const FsdpLife::Unit& unit, const TimeAxis& axis, double y) {
  const auto span = [&](const Span& when, double top, double height, const char* fill) {
    return box(axis.at(when.begin), top, axis.at(when.end) - axis.at(when.begin), height, fill,
               " stroke=\"#555\" stroke-width=\"0.6\"");
  };
  const auto label = [&](const Span& when, double top, const char* words) {
    return text(axis.at((when.begin + when.end) / 2), top + 13, words, "middle");
  };
  std::string svg;
  for (const Span& whole : unit.whole) svg += span(whole, y, 18, pale_blue);
  for (const Span& gather : unit.gathers)
    svg += span(gather, y, 18, mid_blue) + label(gather, y, "g");
  svg += span(unit.gradients, y + 19, 18, pale_orange);
  svg += span(unit.reduction, y + 19, 18, mid_orange) + label(unit.reduction, y + 19, "r");
  for (const auto& [what, when] : unit.computing) {
    const double top = what == 'W' ? y + 19 : y;
    svg += span(when, top, 18, what == 'W' ? orange : blue) +
           label(when, top, std::string(1, what).c_str());
  }
  return svg;
}

std::string legend(const std::vector<std::pair<const char*, const char*>>& all, double y) {
  std::string svg;
  double x = 70;
  for (const auto& [fill, words] : all) {
    svg += box(x, y - 10, 14, 12, fill, " stroke=\"#555\" stroke-width=\"0.6\"") +
           text(x + 19, y, words);
    x += 36 + 5.9 * static_cast<double>(std::string_view(words).size());
  }
  return svg;
}

// ---- activation checkpointing ------------------------------------------------------------------

// Notes at each look what was held at most since the last one.
class MemoryWatch {
 public:
  MemoryWatch(MemoryKind kind, std::vector<Held>& to) : kind_(kind), to_(to) {}
  double look() {
    MemoryCount& memory = *context().ledger.memory();
    const double time = now();
    to_.push_back({{last_, time}, memory.peak(kind_)});
    memory.reset_peaks();
    return last_ = time;
  }

 private:
  MemoryKind kind_;
  std::vector<Held>& to_;
  double last_ = 0;
};

// One layer of the model. It looks at the memory when it has run.
class Watched : public Sequential {
 public:
  Watched(Layers layer, std::function<void()> look) : Sequential(layer), look_(std::move(look)) {}
  Tensor forward(const Tensor& x, Saved& saved) override {
    Tensor y = Sequential::forward(x, saved);
    look_();
    return y;
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    Tensor dx = Sequential::backward_input(dy, saved);
    look_();
    return dx;
  }
  void backward_weight(Saved& saved) override {
    Sequential::backward_weight(saved);
    look_();
  }

 private:
  std::function<void()> look_;
};

Microbatch tokens() {
  Microbatch made{Tensor::empty({2, 64}, DType::i32), Tensor::empty({2, 64}, DType::i32)};
  for (Tensor* each : {&made.inputs, &made.targets})
    for (int32_t& token : each->span<int32_t>()) token = 1;
  return made;
}

// The transformer of lesson 17, on a chip of 100 GFLOP/s with no other limit.
CheckpointRun checkpoint_run(const std::string& name, const CheckpointOptions& options) {
  TransformerConfig config = gpt2_config(16, 48, 4, 64, 256);
  config.attention = AttentionKind::plain;
  config.dropout = config.attention_dropout = 0.1;
  CheckpointRun run{name, {}, 0};
  run_on(ideal(1, 1e11), 1, [&](Communicator&) {
    const Transformer model(config);
    for (const ParameterPtr& each : parameters(model.stack())) each->gradient();
    MemoryWatch watch(MemoryKind::activations, run.held);
    std::vector<LayerPtr> watched;
    for (size_t i = 0; i < model.stack().size(); ++i)
      watched.push_back(
          std::make_unique<Watched>(model.stack().subspan(i, 1), [&] { watch.look(); }));
    const std::vector<LayerPtr> layers = checkpointed(watched, options, 1, config.layers + 1);
    const Microbatch batch = tokens();
    Saved saved({17, 0, 0, 0, true});
    Tensor dlogits;
    loss_of(forward(layers, batch.inputs, saved), batch.targets, 1 / 128.0, &dlogits);
    backward(layers, std::move(dlogits), saved);
    run.seconds = watch.look();
  });
  return run;
}

}  // namespace

int64_t most(const std::vector<Held>& all) {
  int64_t bytes = 0;
  for (const Held& held : all) bytes = std::max(bytes, held.bytes);
  return bytes;
}

FsdpLife fsdp_life(const FsdpLinks& links) {
  constexpr LinearNetConfig net = {4, 32};
  constexpr int64_t rows = 64;
  constexpr double flops = 2.0 * net.width * net.width * rows;  // so that F takes 1 s, I and W too
  std::vector<FsdpLife> lives(4);
  for (FsdpLife& life : lives) {
    life.gather = links.gather;
    life.unit_bytes = 4 * net.width * net.width;
  }
  const double sent = static_cast<double>(lives[0].unit_bytes) * 3 / 4;
  const Timed run = run_on(ideal(4, flops, sent / lives[0].gather), 4, [&](Communicator& world) {
    FsdpWatch watch(lives[static_cast<size_t>(world.rank())], net);
    watch.pass(world, Tensor::full({rows, net.width}, 1), links.prefetch);
  });
  FsdpLife& life = lives[0];
  const size_t units = life.units.size();  // gathered upwards, then downwards; reduced downwards
  const std::vector<Span> gathers = collectives(run.trace, "fsdp.all_gather", 2 * units);
  const std::vector<Span> reductions = collectives(run.trace, "fsdp.reduce", units);
  for (size_t u = 0; u < units; ++u) {
    life.units[u].gathers = {gathers.at(u), gathers.at(2 * units - 1 - u)};
    life.units[u].reduction = reductions.at(units - 1 - u);
  }
  life.borrowed = borrowed(life);
  return life;
}

std::string fsdp_life_svg(const FsdpLife& life) {
  const TimeAxis axis{70, 880, life.seconds};
  const double first = 62, pitch = 46,
               base = first + pitch * static_cast<double>(life.units.size()) + 150;
  const double unit = static_cast<double>(life.unit_bytes),
               peak = static_cast<double>(most(life.borrowed)) / unit;
  std::string svg;
  for (size_t u = 0; u < life.units.size(); ++u) {
    const double y = first + pitch * static_cast<double>(u);
    svg += text(60, y + 23, fmt::format("unit {}", u), "end") + unit_row(life.units[u], axis, y) +
           line(axis.left, y + 41, axis.right, y + 41, " stroke-opacity=\"0.25\"");
  }
  svg += area(life.borrowed, axis, base, 120, 4 * unit, pale_blue);
  for (int i = 0; i <= 4; ++i)
    svg += line(66, base - 30 * i, 70, base - 30 * i) +
           text(62, base - 30 * i + 4, fmt::format("{}", i), "end", 10);
  svg += line(70, base, 70, base - 124) +
         text(74, base - 126, "what rank 0 borrows, in units of weights");
  svg += line(70, base - 30 * peak, 880, base - 30 * peak, " stroke-dasharray=\"5 4\"") +
         text(878, base - 30 * peak - 5, fmt::format("peak {:.2f}", peak), "end");
  svg += axis.ticks(base, 1, 1,
                    "seconds (F, I and W of a unit take 1 s each, a gather and a reduction 0.5 s)");
  svg += legend({{mid_blue, "g: all_gather"},
                 {pale_blue, "room for all weights"},
                 {blue, "F, I: computes with weights"}},
                base + 56);
  svg += legend({{orange, "W: weight gradients"},
                 {pale_orange, "gradients held"},
                 {mid_orange, "r: reduce_scatter"}},
                base + 76);
  return page(static_cast<int>(base) + 92, "The life of FSDP's units",
              fmt::format("Rank 0 of {}: a unit's weights are gathered while the unit before "
                          "computes, used, and dropped. "
                          "Two are whole at a time.",
                          life.ranks),
              svg);
}

std::vector<CheckpointRun> checkpoint_runs() {
  return {checkpoint_run("none", {Recompute::none}),
          checkpoint_run("every layer (full)", {Recompute::all, 1}),
          checkpoint_run("square root", {Recompute::all, 0}),
          checkpoint_run("Revolve, 3", {Recompute::revolve, 1, 3})};
}

std::string checkpoint_memory_svg(const std::vector<CheckpointRun>& runs) {
  double seconds = 0;
  for (const CheckpointRun& run : runs) seconds = std::max(seconds, run.seconds);
  const TimeAxis axis{70, 880, seconds};
  const double full = static_cast<double>(most(runs[0].held)), height = 84, pitch = 112;
  constexpr const char* fills[] = {"#d6e4f5", "#fbe3cf", "#d9ecd0", "#ead9f0"};
  std::string svg;
  double base = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    base = 62 + pitch * static_cast<double>(i) + height;
    const double share = 100 * static_cast<double>(most(runs[i].held)) / full;
    svg += area(runs[i].held, axis, base, height, full, fills[i % 4]);
    svg += line(70, base, 880, base) + line(70, base, 70, base - height);
    for (const int percent : {0, 50, 100})
      svg += line(66, base - height * percent / 100, 70, base - height * percent / 100) +
             text(62, base - height * percent / 100 + 4, fmt::format("{}%", percent), "end", 10);
    svg += text(876, base - height + 10,
                fmt::format("{}: peak {:.1f}% of none's, {:.2f} times its time", runs[i].name,
                            share, runs[i].seconds / runs[0].seconds),
                "end", 12, true);
  }
  svg +=
      axis.ticks(base, 1e-3, 1e-3,
                 "milliseconds on a chip of 100 GFLOP/s; 100% is the peak without recomputation");
  return page(static_cast<int>(base) + 44, "Activations held during one step, four ways",
              "A transformer of 16 layers, forward and then backward. Bytes by the ledger, time by "
              "the virtual clock.",
              svg);
}

std::vector<std::pair<std::string, std::string>> memory_pictures() {
  return {{"fsdp_life.svg", fsdp_life_svg(fsdp_life())},
          {"checkpoint_memory.svg", checkpoint_memory_svg(checkpoint_runs())}};
}

}  // namespace yotta
