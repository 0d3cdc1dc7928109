// The graded cases of exercise 17. The layers are probes: each counts how often it runs forward,
// and its Saved holds a token, so that the Saved that live at the same time can be counted.
#include "course/cases/graded.hpp"
#include "interface.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/dropout_layer.hpp"
#include "yotta/nn/linear.hpp"

using namespace yotta;
using exercise::expect;
using exercise::solution;

namespace {

constexpr int64_t width = 4, token_bytes = 64;

struct Log {
  int64_t forwards = 0;
  int64_t live = 0, most_live = 0;       // Saved of layers
  std::vector<int64_t> on_the_way_back;  // that live when a layer's backward pass begins
};

// Tokens are the only buffers of these cases.
void count_live(Log& log) {
  log.live = context().ledger.memory()->live(MemoryKind::buffers) / token_bytes;
  log.most_live = std::max(log.most_live, log.live);
}

// A linear layer with dropout behind it.
class Probe : public Composite {
 public:
  Probe(std::string name, double dropout, Log& log)
      : Composite(std::move(name)),
        linear_(this->name() + ".linear", {width, width, false, normal(0.6)}, {17, DType::f64}),
        dropout_(this->name() + ".dropout", dropout),
        log_(log) {}
  Tensor forward(const Tensor& x, Saved& saved) override {
    if (!x.defined())
      fail(Where::current(),
           "{} is run on an undefined tensor, nothing flows here. In a schedule the layer of the "
           "first reversal is not run again: forward() has run it",
           name());
    ++log_.forwards;
    {
      const MemoryScope memory(MemoryKind::buffers);
      saved.keep("token", Tensor::zeros({token_bytes}, DType::u8));
    }
    count_live(log_);
    return run(dropout_, run(linear_, x, saved), saved);
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    count_live(log_);
    log_.on_the_way_back.push_back(log_.live);
    return run_back(linear_, run_back(dropout_, dy, saved), saved);
  }
  void backward_weight(Saved& saved) override {
    Composite::backward_weight(saved);
    saved.take("token");
  }

 protected:
  std::vector<Layer*> parts() override { return {&linear_, &dropout_}; }

 private:
  Linear linear_;
  Dropout dropout_;
  Log& log_;
};

// n probes, and a rank's context of their own.
struct Chain {
  explicit Chain(int64_t n, double dropout = 0) : scope(rank) {
    rank.threads = 1;
    for (int64_t i = 0; i < n; ++i)
      layers.push_back(std::make_unique<Probe>("layer " + std::to_string(i), dropout, log));
  }
  // Slices of C layers, each made by `make`.
  std::vector<LayerPtr> sliced(int64_t C, exercise::Call<LayerPtr(Layers)> make) const {
    std::vector<LayerPtr> slices;
    const size_t n = layers.size(), step = static_cast<size_t>(C);
    for (size_t begin = 0; begin < n; begin += step)
      slices.push_back(make(Layers(layers).subspan(begin, std::min(step, n - begin))));
    return slices;
  }

  RankContext rank;
  ContextScope scope;
  Log log;
  std::vector<LayerPtr> layers;
};

Tensor input() {
  Tensor x = Tensor::empty({2, 3, width}, DType::f64);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<double>()[i] = Random(exercise::seed(17), "x").normal(static_cast<uint64_t>(i));
  return x;
}
constexpr BatchPosition place{1, 2, 3, 0, true};

// dx, and then every weight's gradient, of one microbatch.
Numbers gradients(Layers layers) {
  zero_gradients(layers);
  Saved saved(place);
  const Tensor y = forward(layers, input(), saved);
  Numbers all = backward(layers, y.clone(), saved).values();
  for (const ParameterPtr& each : parameters(layers))
    for (const double g : each->gradient().values()) all.push_back(g);
  return all;
}

// Wrong gradients, in words; empty if all is right.
std::string wrong_gradients(double dropout, int64_t n, int64_t C) {
  const Chain chain(n, dropout);
  const Numbers expected = gradients(chain.layers);
  const std::vector<LayerPtr> slices = chain.sliced(C, solution.checkpoint);
  Clues clues;
  clues.what = fmt::format("dx and weight gradients of {} layers in slices of {}{}", n, C,
                           dropout > 0 ? ", with dropout" : "");
  return compare(gradients(slices), expected, 0, clues).text;
}

}  // namespace

TEST_CASE("17.1: checkpoints and Saved together are fewest") {
  for (const int64_t n : exercise::sizes<int64_t>({24, 1, 2, 9, 10, 100, 126}, 11, 99)) {
    const int64_t C = solution.square_root_of(n);
    expect(C >= 1, fmt::format("{} layers: slices of {} layers", n, C));
    const auto held = [&](int64_t c) { return (n + c - 1) / c + c; };
    int64_t least = held(1);
    for (int64_t c = 1; c <= n; ++c) least = std::min(least, held(c));
    expect(held(C) == least,
           fmt::format("{} layers in slices of {}: {} checkpoints and {} Saved are held, {} in all "
                       "would do",
                       n, C, (n + C - 1) / C, C, least));
  }
}

TEST_CASE("17.2: forward gives what the layers give, and keeps the input alone") {
  const Chain chain(5, 0.3);
  Saved plain(place), saved(place);
  const Tensor y = forward(chain.layers, input(), plain);
  const LayerPtr slice = solution.checkpoint(chain.layers);
  const Tensor x = input();
  Clues clues;
  clues.what = "y of 5 layers as one checkpointed slice";
  clues.suspects = {{"x: no layer has run", input().values()}};
  expect(compare(slice->forward(x, saved).values(), y.values(), 0, clues));
  expect(saved.has("x"), "forward keeps nothing called \"x\"");
  expect(saved.get("x").values() == x.values(),
         "what is kept as \"x\" is not the slice's input but another tensor. Keep x once, before "
         "the first layer: a second keep() under the same name replaces what was there");
  expect(saved.get("x").shares_memory(x), "x was copied; a handle of it costs nothing");
  expect(saved.bytes() == x.nbytes(),
         fmt::format("{} bytes are kept after forward, x has {}", saved.bytes(), x.nbytes()));
}

TEST_CASE("17.2: a checkpoint holds the input of its slice") {
  const Chain chain(12);
  const std::vector<LayerPtr> slices = chain.sliced(6, solution.checkpoint);
  std::vector<Numbers> outputs;  // of each layer
  Saved plain(place), saved(place);
  Tensor flows = input();
  for (const LayerPtr& layer : chain.layers) {
    flows = layer->forward(flows, plain.child(layer->name()));
    outputs.push_back(flows.values());
  }
  forward(slices, input(), saved);
  for (size_t k = slices.size(); k-- > 0;) {
    const Numbers held = saved.child(slices[k]->name()).get("x").values();
    const Numbers right = k == 0 ? input().values() : outputs[6 * k - 1];
    for (size_t layer = 0; layer < outputs.size(); ++layer)
      expect(held == right || held != outputs[layer],
             fmt::format("checkpoint {} holds layer {}'s output, and should hold layer {}'s input: "
                         "y = x is the same tensor, so writing into y (copy_from) writes into x",
                         k, layer, 6 * k));
    expect(held == right, fmt::format("checkpoint {} does not hold layer {}'s input", k, 6 * k));
  }
}

TEST_CASE("17.2: no more Saved live at once than a slice has layers") {
  Chain chain(24);
  const std::vector<LayerPtr> slices = chain.sliced(8, solution.checkpoint);
  Saved saved(place);
  forward(slices, input(), saved);
  count_live(chain.log);
  expect(
      chain.log.most_live <= 8,
      fmt::format("{} Saved live, 8 allowed: 24 layers in slices of 8, after forward. Each layer "
                  "runs with a Saved that is dropped",
                  chain.log.most_live));
}

TEST_CASE("17.3: the gradients are those of the plain stack") {
  for (const auto& [n, C] : {std::pair<int64_t, int64_t>{12, 4}, {7, 3}, {3, 5}, {1, 1}})
    expect(wrong_gradients(0, n, C).empty(), wrong_gradients(0, n, C));
}

TEST_CASE("17.3: with dropout the gradients are the same too") {
  const std::string without = wrong_gradients(0, 6, 3), with = wrong_gradients(0.3, 6, 3);
  expect(without.empty(), without);
  expect(with.empty(),
         "differs only with dropout: the second run drew other masks. Run it with a Saved at the "
         "same place as the first, saved.position()\n    " +
             with);
}

TEST_CASE("17.3: each layer is run again once") {
  Chain chain(24);
  const LayerPtr slice = solution.checkpoint(chain.layers);
  Saved saved(place);
  const Tensor y = slice->forward(input(), saved);
  chain.log.forwards = 0;
  slice->backward_input(y, saved);
  const int64_t more = chain.log.forwards - 24;
  expect(more <= 0,
         fmt::format("backward of 24 layers ran {} forwards and 24 are enough: {} forwards{} too "
                     "many. Keep the Saved of the whole slice while you go back through it",
                     chain.log.forwards, more, more == 276 ? ", n(n-1)/2," : ""));
  expect(more == 0, fmt::format("backward of 24 layers ran {} forwards", chain.log.forwards));
}

TEST_CASE("17.3: a slice is freed on the way back, and leaves nothing") {
  Chain chain(24);
  const std::vector<LayerPtr> slices = chain.sliced(8, solution.checkpoint);
  Saved saved(place);
  Tensor y = forward(slices, input(), saved);
  chain.log.most_live = 0;
  backward(slices, std::move(y), saved);
  count_live(chain.log);
  expect(chain.log.most_live == 8,
         fmt::format("{} Saved live, 8 allowed: 24 layers in slices of 8, in backward",
                     chain.log.most_live));
  expect(chain.log.live == 0 && saved.bytes() == 0,
         fmt::format("after backward {} Saved live, and {} bytes are kept", chain.log.live,
                     saved.bytes()));
  for (size_t i = 0; i < chain.log.on_the_way_back.size(); ++i) {
    const auto right = static_cast<int64_t>(8 - i % 8);
    expect(chain.log.on_the_way_back[i] <= right,
           fmt::format("{} Saved live when the backward pass of a slice of 8 layers comes to layer "
                       "{} of it, {} allowed: after I of a layer comes its W, which frees it, and "
                       "then the layer before",
                       chain.log.on_the_way_back[i], right - 1, right));
  }
}

namespace {

std::string list(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all.empty() ? "nothing" : all;
}

// A stack of n probes whose entries [first, last) are cut into slices of `every` layers. `C`: how
// many these are.
void expect_slices(int64_t n, int64_t every, int64_t C, int64_t first, int64_t last) {
  const Chain chain(n);
  const Layers stack = chain.layers;
  const auto slice = [&](int64_t begin, int64_t end) {
    return name_of(stack.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  };
  std::vector<std::string> right, made;
  for (int64_t i = 0; i < first; ++i) right.push_back(slice(i, i + 1));
  for (int64_t i = first; i < last; i += C) right.push_back(slice(i, std::min(last, i + C)));
  for (int64_t i = last; i < n; ++i) right.push_back(slice(i, i + 1));
  for (const LayerPtr& each : solution.checkpointed(stack, every, first, last))
    made.push_back(each->name());
  expect(made == right,
         fmt::format("{} layers, entries {} to {} in slices of {}{}: you made {}; right is {}", n,
                     first, last - 1, C, every == 0 ? " (every = 0: the square root)" : "",
                     list(made), list(right)));
}

}  // namespace

TEST_CASE("17.4: slices of `every` layers, the last one shorter") {
  expect_slices(12, 4, 4, 0, 12);
  expect_slices(7, 3, 3, 0, 7);
  expect_slices(3, 5, 5, 0, 3);
  expect_slices(1, 1, 1, 0, 1);
}

TEST_CASE("17.4: every = 0 cuts at the square root of the number of layers") {
  expect_slices(9, 0, 3, 0, 9);
  expect_slices(11, 0, 3, 1, 10);
}

TEST_CASE("17.4: an embedding before and a head behind stay as they are") {
  expect_slices(8, 3, 3, 1, 7);
  expect_slices(6, 2, 2, 2, 5);
}

TEST_CASE("17.4: each slice is a checkpoint: after forward its input is kept, and no more") {
  Chain chain(7);
  const std::vector<LayerPtr> layers = solution.checkpointed(chain.layers, 3, 0, 7);
  Saved saved(place);
  forward(layers, input(), saved);
  count_live(chain.log);
  expect(
      chain.log.live == 0 && saved.bytes() == 3 * input().nbytes(),
      fmt::format("7 layers in slices of 3: after forward {} bytes are kept, and 3 inputs have {}. "
                  "Each slice is a Checkpoint",
                  saved.bytes(), 3 * input().nbytes()));
}

namespace {

// Keeps what a core keeps, with a mask of the probabilities or without; its output is q's number.
class StandIn : public AttentionCore {
 public:
  explicit StandIn(bool masks) : masks_(masks) {}
  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, Saved& saved) override {
    saved.keep("q", q), saved.keep("k", k), saved.keep("v", v);
    saved.keep("probabilities", Tensor::zeros({2}));
    if (masks_) saved.keep("mask", Tensor::zeros({2}));
    return Tensor::full({1}, q.values()[0] + 10);
  }
  AttentionGradients backward(const Tensor& dout, Saved&) override { return {dout, dout, dout}; }

 private:
  bool masks_;
};

// The Saved of attention after its core's forward; its output's dropout has kept a mask, too.
struct AfterStandIn {
  explicit AfterStandIn(bool masks) : saved(place) {
    saved.child("dropout").keep("mask", Tensor::zeros({2}));
    const auto number = [](double value) { return Tensor::full({1}, value); };
    y = solution.recomputed(std::make_unique<StandIn>(masks))
            ->forward(number(1), number(2), number(3), saved);
  }
  Saved saved;
  Tensor y;
};

}  // namespace

TEST_CASE("17.5: the core runs with q, k and v, and its output is the output") {
  AfterStandIn after(true);
  for (const auto& [slot, right] : {std::pair{"q", 1.0}, {"k", 2.0}, {"v", 3.0}})
    expect(after.saved.has(slot) && after.saved.get(slot).values() == Numbers{right},
           fmt::format("the core was not given {0} as its {0}: forward(q, k, v, saved)", slot));
  expect(after.y.defined() && after.y.values() == Numbers{11},
         "the core's output is not what forward returns");
}

TEST_CASE("17.5: the probabilities and their mask are dropped, and nothing else") {
  AfterStandIn after(true);
  Saved& attention = after.saved;
  expect(!attention.has("probabilities"), "the probabilities are still kept");
  expect(!attention.has("mask"), "the probabilities' mask is still kept");
  expect(attention.child("dropout").has("mask"),
         "the mask of a dropout layer is gone: only the one beside \"probabilities\" can be made "
         "again, by attention");
  for (const char* slot : {"q", "k", "v"})
    expect(attention.has(slot), fmt::format("{} is gone: attention needs it", slot));
}

TEST_CASE("17.5: without dropout there is no mask to drop") {
  const std::string text = exercise::error_of([] {
    expect(!AfterStandIn(false).saved.has("probabilities"),
           "attention without dropout: the probabilities are still kept");
  });
  expect(text.empty(),
         "attention without dropout keeps probabilities and no mask; ask has(\"mask\") before "
         "take(\"mask\"). It said: " +
             text);
}

namespace {

using Kind = ReplayAction::Kind;

// Plays actions on 4 probes. The reversal of layer 3 comes last: forward() plays what is before it,
// then runs layer 3.
struct Played {
  explicit Played(ReplayActions actions) : chain(4, 0.3), saved(place), x(input()) {
    actions.push_back({Kind::reverse, 3});
    const LayerPtr slice = solution.replay(chain.layers, actions);
    y = slice->forward(x, saved);
  }
  // What flows out of layer 3 if these layers have run before.
  Numbers after(const std::vector<int64_t>& run) const {
    Saved plain(place);
    Tensor flows = input();
    for (const int64_t i : run) {
      Layer& layer = *chain.layers[static_cast<size_t>(i)];
      flows = layer.forward(flows, plain.child(layer.name()));
    }
    return chain.layers[3]->forward(flows, plain.child("last")).values();
  }

  Chain chain;
  Saved saved;
  Tensor x, y;
};

}  // namespace

TEST_CASE("17.6: run goes forward and keeps nothing") {
  Played played({{Kind::run, 0}, {Kind::run, 1}, {Kind::run, 2}});
  count_live(played.chain.log);
  const int64_t live = played.chain.log.live;
  expect(played.y.values() == played.after({0, 1, 2}),
         "after run 0, run 1, run 2 something else flows into layer 3 than layer 2's output: "
         "`flows` becomes what the layer gives at saved.position(), which says which masks dropout "
         "draws");
  expect(live == 1,
         fmt::format("after run 0, run 1, run 2 and the forward of layer 3, {} Saved live, 1 "
                     "allowed: a run keeps nothing, run_and_forget()",
                     live));
}

TEST_CASE("17.6: restore lets flow what was kept, and leaves it there") {
  Played played({{Kind::keep, 0}, {Kind::run, 0}, {Kind::run, 1}, {Kind::restore, 0}});
  expect(played.y.values() == played.after({}),
         "after keep 0, run 0, run 1 and restore 0 something else flows than the input: keep puts "
         "`flows` into the slot, restore gets it back");
  expect(played.saved.has("checkpoint 0"),
         "a checkpoint is gone after it was restored: get() leaves it there, take() does not");
  expect(played.saved.get("checkpoint 0").shares_memory(played.x),
         "`flows` was copied to be kept; a handle of it costs nothing");
}

TEST_CASE("17.6: drop frees a checkpoint") {
  Played played({{Kind::keep, 0}, {Kind::run, 0}, {Kind::keep, 1}, {Kind::drop, 0}});
  expect(!played.saved.has("checkpoint 0"), "checkpoint 0 is still held after drop 0");
  expect(played.saved.has("checkpoint 1"), "checkpoint 1 is gone, and it was not dropped");
  expect(played.y.values() == played.after({0}),
         "after keep 0, run 0, keep 1 and drop 0 something else flows into layer 3 than layer 0's "
         "output: drop leaves `flows` as it is, and runs nothing");
}

TEST_CASE("17.7: the gradients are those of the plain stack, whatever the schedule") {
  for (const double dropout : {0.0, 0.3})
    for (const int64_t n : {7, 1, 2}) {
      const Chain chain(n, dropout);
      const Numbers expected = gradients(chain.layers);
      for (const ReplayActions& actions :
           {revolve_schedule(n, 1), revolve_schedule(n, 3), restart_schedule(n, 3)}) {
        std::vector<LayerPtr> slice;
        slice.push_back(solution.replay(chain.layers, actions));
        Numbers actual = gradients(slice);
        const auto weights = [](Numbers all) {
          return Numbers(all.begin() + input().numel(), all.end());
        };
        Clues clues;
        clues.what = fmt::format("weight gradients of {} layers, by \"{}\"", n, str(actions));
        expect(compare(weights(actual), weights(expected), 0, clues));
        clues.what = "dx of " + clues.what.substr(17);
        actual.resize(static_cast<size_t>(input().numel()));
        expect(compare(actual, Numbers(expected.begin(), expected.begin() + input().numel()), 0,
                       clues));
      }
    }
}

TEST_CASE("17.7: no more forwards than the schedule says, one Saved at a time") {
  for (const int64_t s : {1, 2, 4}) {
    Chain chain(24);
    const LayerPtr slice = solution.replay(chain.layers, revolve_schedule(24, s));
    Saved saved(place);
    const Tensor y = slice->forward(input(), saved);
    slice->backward_input(y, saved);
    count_live(chain.log);
    const int64_t expected = 24 + revolve_steps(24, s);
    expect(chain.log.forwards == expected,
           fmt::format("24 layers, {} checkpoints: {} forwards, expected {}", s, chain.log.forwards,
                       expected));
    expect(chain.log.most_live <= 2,
           fmt::format("{} Saved live at once: a layer's Saved ends with its reversal",
                       chain.log.most_live));
    expect(chain.log.live == 0 && saved.bytes() == 0,
           fmt::format("after backward {} bytes are still kept", saved.bytes()));
  }
}
