// The graded cases of exercise 15. What a rank holds and sends is read from the ledger, so a
// solution that computes the right numbers with everything whole does not pass.
#include <atomic>
#include <functional>

#include "course/cases/graded_ranks.hpp"
#include "interface.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/linear_net.hpp"

using namespace yotta;
using exercise::AnyFsdp;
using exercise::AnyUnit;
using exercise::expect;
using exercise::require;
using exercise::run;
using exercise::solution;

namespace {

using Numbers = std::vector<double>;

// ---- one unit: w (2, 3), b (3), v (2, 2): 13 numbers of value 0, 1, 2, ... ---------------------

constexpr int64_t numbers = 13;

std::vector<ParameterPtr> make_parameters(DType dtype = DType::f64) {
  std::vector<ParameterPtr> made = {make_parameter("w", {2, 3}, true, zeros(), 0, DType::f64),
                                    make_parameter("b", {1, 3}, false, zeros(), 0, DType::f64),
                                    make_parameter("v", {2, 2}, true, zeros(), 0, DType::f64)};
  double next = 0;
  for (const ParameterPtr& each : made) {
    for (double& value : each->value.span<double>()) value = next++;
    if (dtype != DType::f64) {
      const MemoryScope memory(MemoryKind::parameters);
      each->value = each->value.to(dtype);
    }
  }
  return made;
}

Numbers counted_up() {
  Numbers all(numbers);
  for (size_t i = 0; i < numbers; ++i) all[i] = static_cast<double>(i);
  return all;
}

Numbers values_of(const std::vector<ParameterPtr>& parameters) {
  Numbers all;
  for (const ParameterPtr& each : parameters) {
    require(each->value.defined(),
            fmt::format("the weight {} is undefined after unshard(): set_values() makes the "
                        "layers' weights views of the gathered array",
                        each->name));
    for (const double value : each->value.values()) all.push_back(value);
  }
  return all;
}

// The gradient of number i on a rank, in a microbatch.
double local_gradient(int rank, int microbatch, int64_t i) {
  return static_cast<double>((rank + 1) * 100 + 10 * microbatch + i);
}

// One backward pass of the unit on this rank, as the layers would do it.
void backward_unit(AnyUnit& unit, const std::vector<ParameterPtr>& parameters, int rank,
                   int microbatch) {
  unit.open_gradients();
  int64_t i = 0;
  for (const ParameterPtr& each : parameters)
    visit(each->grad.dtype(), [&]<class T>(Type<T>) {
      for (T& g : each->grad.span<T>())
        g = static_cast<T>(static_cast<double>(g) + local_gradient(rank, microbatch, i++));
    });
  unit.reduce();
}

int64_t padded(int64_t count, int p) { return (count + p - 1) / p * p; }
int64_t live(MemoryKind kind) { return context().ledger.memory()->live(kind); }

// Bytes that this rank's collectives have sent when all ranks are here, and what was under way has
// arrived.
int64_t sent_by_now(Communicator& world) {
  world.barrier();
  const Ledger& ledger = context().ledger;
  return ledger.total_traffic().bytes_sent - ledger.traffic("send").bytes_sent;
}

// body(world) checks what it grades and returns its unit. The call that ends what the unit has
// begun is of a later task, and may be wrong, or not done yet.
template <class Body>
void run_before(void (AnyUnit::*end)(), int p, Body body) {
  std::atomic<bool> checked = false;
  try {
    run(p, [&](Communicator& world) {
      const std::unique_ptr<AnyUnit> unit = body(world);
      world.barrier();
      checked = true;
      (*unit.*end)();
    });
  } catch (const Error&) {
    if (!checked) throw;
  }
}

// ---- a whole net: 9 layers of one weight (4, 4) each -------------------------------------------

constexpr LinearNetConfig net = {9, 4};
constexpr int64_t one_layer = net.width * net.width;
constexpr int64_t rows = 7;

// Says "F 3" or "I 3" to whoever listens, and does nothing.
class Probe : public Layer {
 public:
  using Listener = std::function<void(char, int)>;
  Probe(int number, const Listener& listener)
      : Layer("probe " + std::to_string(number)), number_(number), listener_(listener) {}
  Tensor forward(const Tensor& x, Saved&) override { return listener_('F', number_), x; }
  Tensor backward_input(const Tensor& dy, Saved&) override { return listener_('I', number_), dy; }
  void backward_weight(Saved&) override { listener_('W', number_); }
  void add_parameters(std::vector<ParameterPtr>&) override {}

 private:
  int number_;
  const Listener& listener_;
};

// A layer and its probe as one layer of the stack, and so one unit.
class Probed : public Composite {
 public:
  Probed(LayerPtr layer, int number, const Probe::Listener& listener)
      : Composite("unit " + std::to_string(number)),
        layer_(std::move(layer)),
        probe_(number, listener) {}
  Tensor forward(const Tensor& x, Saved& saved) override {
    expect_weights("forward");
    return run(probe_, run(*layer_, x, saved), saved);
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    expect_weights("dgrad");
    return run_back(*layer_, run_back(probe_, dy, saved), saved);
  }
  void backward_weight(Saved& saved) override {
    for (const ParameterPtr& each : own_parameters())
      require(each->value.defined() || each->grad.defined(),
              name() + "'s wgrad has no gradient to add to: open_gradients() first");
    Composite::backward_weight(saved);
  }

 protected:
  std::vector<Layer*> parts() override { return {layer_.get(), &probe_}; }

 private:
  std::vector<ParameterPtr> own_parameters() { return parameters(Layers(&layer_, 1)); }
  void expect_weights(const char* what) {
    for (const ParameterPtr& each : own_parameters())
      require(each->value.defined(), fmt::format("{}'s {} runs, and its weights are not gathered: "
                                                 "unshard() first",
                                                 name(), what));
  }

  LayerPtr layer_;
  Probe probe_;
};

std::vector<LayerPtr> make_net(const Probe::Listener& listener) {
  std::vector<LayerPtr> stack;
  for (LayerPtr& layer : make_linear_net(net, {exercise::seed(1), DType::f64}))
    stack.push_back(
        std::make_unique<Probed>(std::move(layer), static_cast<int>(stack.size()), listener));
  return stack;
}

Tensor batch_rows(const char* name, int64_t step, int64_t begin, int64_t end) {
  Tensor x = Tensor::empty({end - begin, net.width}, DType::f64);
  const Random random(exercise::seed(static_cast<uint64_t>(step)), name);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<double>()[i] = random.normal(static_cast<uint64_t>(begin * net.width + i));
  return x;
}

// Forward of rows [begin, end) in a training pass, or in an evaluation.
Tensor forward_rows(Layers stack, Saved& saved, int64_t step, int64_t begin, int64_t end) {
  return forward(stack, batch_rows("x", step, begin, end), saved);
}
Saved training() { return Saved({0, 0, 0, 0, true}); }

void pass(Layers stack, int64_t step, int64_t begin, int64_t end) {
  Saved saved = training();
  Tensor dy = forward_rows(stack, saved, step, begin, end);
  const Tensor target = batch_rows("t", step, begin, end);
  for (int64_t i = 0; i < dy.numel(); ++i)
    dy.data<double>()[i] = (dy.data<double>()[i] - target.data<double>()[i]) / rows;
  backward(stack, dy, saved);
}

// Three layers, the last with the weight of the first: unit 0, the root, has two slices, and unit 1
// is between.
std::vector<LayerPtr> make_tied_net() {
  std::vector<LayerPtr> stack = make_linear_net({3, net.width}, {1, DType::f64});
  stack.back() = std::make_unique<Linear>("tied", parameters(Layers(stack)).front());
  return stack;
}
// How many units of such a net a rank of 2 has sent its half of.
int64_t units_sent(const char* label) {
  return context().ledger.traffic(label).bytes_sent / (one_layer / 2 * 8);
}

// Calls see(fsdp, what, unit) whenever a unit's layer has computed F, or is about to compute I or
// W, on rank 0 of 2; "R" when the unit's I is over. Up to: "F" forward alone, "I" dgrads too, "W" a
// whole pass.
using See = std::function<void(AnyFsdp&, char, int)>;
void watch_pass(exercise::FsdpChoices choices, char up_to, const See& see) {
  run(2, [&](Communicator& world) {
    std::unique_ptr<AnyFsdp> fsdp;
    const Probe::Listener listener = [&](char what, int unit) {
      if (world.rank() == 0) see(*fsdp, what, unit);
    };
    const std::vector<LayerPtr> model = make_net(listener);
    fsdp = solution.make_fsdp(model, world, choices);
    Saved saved = training();
    Tensor dy = forward_rows(fsdp->stack(), saved, 0, 0, 2);
    if (up_to == 'F') return;
    for (size_t i = model.size(); i-- > 0;) {
      Layer& layer = *fsdp->stack()[i];
      dy = layer.backward_input(dy, saved.child(layer.name()));
      if (world.rank() == 0) see(*fsdp, 'R', static_cast<int>(i));
      if (up_to == 'W') layer.backward_weight(saved.child(layer.name()));
    }
    fsdp->finish();
  });
}

// Units whose weights are whole, or on their way, apart from one.
std::vector<int> gathered_beside(AnyFsdp& fsdp, int unit) {
  std::vector<int> others;
  const std::vector<AnyUnit*> units = fsdp.units();
  for (int u = 0; u < std::ssize(units); ++u)
    if (u != unit && units[static_cast<size_t>(u)]->is_gathered()) others.push_back(u);
  return others;
}
std::string list(const std::vector<int>& units) {
  std::string text;
  for (const int unit : units) text += (text.empty() ? "" : ", ") + std::to_string(unit);
  return text.empty() ? "none" : text;
}

// Throws unless unit `needed` is what was fetched; there may be no such unit.
void expect_fetched(const std::vector<int>& fetched, int needed, const std::string& when) {
  std::vector<int> right;
  if (needed >= 0 && needed < net.layers) right.push_back(needed);
  require(fetched == right,
          fmt::format("{}: needed unit {}, fetched {}", when, list(right), list(fetched)));
}

// Rank 0 computes F of unit 0, or I of unit 8. Rank 1 joins the gather of the unit after only when
// it has heard that rank 0 computes: whoever has started or awaits that gather before never gets
// there.
void expect_own_gather_first(char what) {
  const int own = what == 'F' ? 0 : 8, next = what == 'F' ? 1 : 7;
  const auto body = [=](Communicator& world) {
    Numbers token = {1};
    const Probe::Listener tell = [&](char now, int unit) {
      if (world.rank() == 0 && now == what && unit == own) world.send(token, 1);
    };
    const std::vector<LayerPtr> model = make_net(tell);
    const auto fsdp = solution.make_fsdp(model, world, {});
    Saved saved = training();
    Tensor x = batch_rows("x", 0, 0, 2);
    if (what == 'I') x = forward(fsdp->stack(), x, saved);
    Layer& layer = *fsdp->stack()[static_cast<size_t>(own)];
    AnyUnit& after = *fsdp->units()[static_cast<size_t>(next)];
    if (world.rank() == 1) {
      fsdp->units()[static_cast<size_t>(own)]->prefetch();
      world.recv(token, 0);
      after.prefetch();
      fsdp->units()[static_cast<size_t>(own)]->unshard();
    } else if (what == 'F') {
      layer.forward(x, saved.child(layer.name()));
    } else {
      layer.backward_input(x, saved.child(layer.name()));
    }
    after.unshard();
  };
  try {
    run(2, body);
  } catch (const Deadlock&) {
    FAIL(
        fmt::format("{} of unit {} had to wait for the gather of unit {}: unshard() this unit "
                    "first, then prefetch() the next, which does not wait, then compute",
                    what == 'F' ? "forward" : "backward", own, next));
  }
}

}  // namespace

TEST_CASE("15.1: at rest a rank holds 1/p of weights, gradients and optimizer state") {
  run(4, [](Communicator& world) {
    const std::vector<LayerPtr> model = make_linear_net({3, 8}, {1, DType::f32});
    const int64_t N = parameters(LinearNetConfig{3, 8});
    const auto fsdp = solution.make_fsdp(model, world, {});
    const std::vector<ParameterPtr> shards = parameters(fsdp->stack());
    for (const ParameterPtr& each : shards) each->gradient();
    const AdamW optimizer(shards);
    const int64_t held =
        live(MemoryKind::parameters) + live(MemoryKind::gradients) + live(MemoryKind::optimizer);
    require(held == 4 * N,
            fmt::format("{}N bytes held, 4N allowed: on 4 ranks each holds a quarter of the 16 "
                        "bytes that f32 weights, gradients and AdamW's state take for each of "
                        "the N parameters",
                        static_cast<double>(held) / static_cast<double>(N)));
  });
  CHECK(true);
}

TEST_CASE("15.1: the parts of all ranks are the model, each number once") {
  for (const int p : exercise::ranks({4, 1, 2, 3})) {
    std::vector<Numbers> parts(static_cast<size_t>(p));
    run(p, [&](Communicator& world) {
      const std::vector<ParameterPtr> parameters = make_parameters();
      const auto unit = solution.make_unit(parameters, world, {});
      for (const ParameterShard& shard : unit->shards())
        for (const double value : shard.parameter->value.values())
          parts[static_cast<size_t>(world.rank())].push_back(value);
      require(!parameters[0]->value.defined(),
              "the layers still hold their whole weights: drop_values() once the part is copied");
    });
    Numbers all;
    for (const Numbers& part : parts) all.insert(all.end(), part.begin(), part.end());
    Clues clues;
    clues.what = fmt::format("the parts of {} ranks, one after the other", p);
    clues.ranks = p;
    expect(compare(all, counted_up(), 0, clues));
  }
}

TEST_CASE("15.2: prefetch starts the all_gather, once, and does not wait for it") {
  // Rank 1 gathers only after it has heard from rank 0, and rank 0 tells it after its prefetch.
  const auto body = [](Communicator& world) {
    auto unit = solution.make_unit(make_parameters(), world, {});
    Numbers token = {1};
    if (world.rank() == 1) world.recv(token, 0);
    unit->prefetch();
    unit->prefetch();
    if (world.rank() == 0) world.send(token, 1);
    require(unit->is_gathered(), "after prefetch() is_gathered() says no: `whole_` is undefined");
    require(live(MemoryKind::buffers) <= padded(numbers, 2) * 8,
            fmt::format("prefetch() borrows {} bytes, and the whole unit takes {}: the shard "
                        "travels as it is, not as a copy, where it has the type dtype_ already",
                        live(MemoryKind::buffers), padded(numbers, 2) * 8));
    const int64_t sent = sent_by_now(world);
    require(sent == padded(numbers, 2) / 2 * 8,
            fmt::format("prefetch() twice sent {} bytes, and once needs {}: what is there or on "
                        "its way is not gathered again",
                        sent, padded(numbers, 2) / 2 * 8));
    return unit;
  };
  try {
    run_before(&AnyUnit::unshard, 2, body);
  } catch (const Deadlock&) {
    FAIL(
        "right, but prefetch() waits for what it starts, so nothing can compute meanwhile. Start "
        "it there with all_gather_async, wait in unshard().");
  }
  CHECK(true);
}

TEST_CASE("15.2: bf16 weights on their way take the unit and one part, and both live on") {
  run_before(&AnyUnit::unshard, 2, [](Communicator& world) {
    auto unit = solution.make_unit(make_parameters(DType::f32), world, DType::bf16);
    const int64_t before = context().ledger.memory()->live();
    unit->prefetch();
    const int64_t borrowed = context().ledger.memory()->live() - before,
                  whole = padded(numbers, 2) * 2, part = whole / 2;
    require(borrowed >= whole + part,
            fmt::format("after prefetch() {} bytes are held beside the shards, and {} for the unit "
                        "and {} for the part that travels are needed until the gather is done. "
                        "What was converted and freed is read by the other ranks all the same, "
                        "whatever lies there by then: keep it in `sent_`",
                        borrowed, whole, part));
    require(borrowed <= whole + part,
            fmt::format("after prefetch() {} bytes are held beside the shards, and {} for the unit "
                        "and {} for the part that travels would do",
                        borrowed, whole, part));
    return unit;
  });
  CHECK(true);
}

TEST_CASE("15.2: weights travel in the type that was asked for") {
  run_before(&AnyUnit::unshard, 2, [](Communicator& world) {
    auto unit = solution.make_unit(make_parameters(DType::f32), world, DType::bf16);
    unit->prefetch();
    const int64_t sent = sent_by_now(world);
    require(sent == padded(numbers, 2) / 2 * 2,
            fmt::format("{} bytes sent where bf16 weights need {}: convert the shard to dtype_ "
                        "before it travels",
                        sent, padded(numbers, 2) / 2 * 2));
    require(unit->shards()[0].parameter->value.dtype() == DType::f32,
            "the shard itself stays f32: the optimizer steps it");
    return unit;
  });
  CHECK(true);
}

// Rank 1 gathers by itself, so that it sees what rank 0 sends.
TEST_CASE("15.2: what travels are the shard's numbers, in the type that was asked for") {
  std::atomic<bool> checked = false;
  const auto body = [&](Communicator& world) {
    const int64_t each = padded(numbers, 2) / 2;
    auto unit = solution.make_unit(make_parameters(DType::f32), world, DType::bf16);
    if (world.rank() == 0) unit->prefetch();
    if (world.rank() == 1) {
      Tensor all = Tensor::empty({2 * each}, DType::bf16);
      const Tensor own = Tensor::zeros({each}, DType::bf16);
      world.all_gather(all, own);
      const Numbers whole = counted_up();
      Clues clues;
      clues.what = "what prefetch() of rank 0 sends of its f32 shard in bf16";
      require(compare(all.rows(0, each).values(), Numbers(whole.begin(), whole.begin() + each), 0,
                      clues));
    }
    world.barrier();
    checked = true;
    if (world.rank() == 0) unit->unshard();
  };
  try {
    run(2, body);
  } catch (const Error&) {
    if (!checked) throw;
  }
  CHECK(true);
}

// A remark: exercise.json gives it no weight.
TEST_CASE("15.2: what prefetch makes is counted as borrowed") {
  run_before(&AnyUnit::unshard, 2, [](Communicator& world) {
    auto unit = solution.make_unit(make_parameters(), world, {});
    unit->prefetch();
    require(live(MemoryKind::buffers) >= padded(numbers, 2) * 8,
            fmt::format("after prefetch() {} bytes are counted as borrowed, and the whole unit "
                        "takes {}: make `whole_` in the scope of a MemoryScope of "
                        "MemoryKind::buffers",
                        live(MemoryKind::buffers), padded(numbers, 2) * 8));
    return unit;
  });
  CHECK(true);
}

TEST_CASE("15.3: after unshard every rank's layers see the whole weights") {
  for (const int p : exercise::ranks({4, 1, 2, 3, 5}))
    for (const bool prefetched : {false, true})
      run(p, [&](Communicator& world) {
        const std::vector<ParameterPtr> parameters = make_parameters();
        const auto unit = solution.make_unit(parameters, world, {});
        if (prefetched) unit->prefetch();
        unit->unshard();
        Clues clues;
        clues.what = fmt::format("the weights after unshard(), rank {} of {}", world.rank(), p);
        clues.ranks = p;
        require(compare(values_of(parameters), counted_up(), 0, clues));
        unit->unshard();  // of what is whole: nothing to do
        require(compare(values_of(parameters), counted_up(), 0, clues));
        const int64_t sent = sent_by_now(world), once = padded(numbers, p) / p * (p - 1) * 8;
        require(sent == once,
                fmt::format("unshard() twice{} sent {} bytes, and one gather needs {}: have it "
                            "gathered by prefetch(), which does nothing if it is on its way",
                            prefetched ? " after prefetch()" : "", sent, once));
      });
  CHECK(true);
}

TEST_CASE("15.3: the weights gathered in bf16 are the rounded ones") {
  for (const int p : exercise::ranks({1, 2, 3}))
    run(p, [&](Communicator& world) {
      const std::vector<ParameterPtr> parameters = make_parameters(DType::f32);
      const auto unit = solution.make_unit(parameters, world, DType::bf16);
      unit->prefetch();
      // Whoever freed what is still on its way finds other numbers there.
      for (int i = 0; i < 8; ++i)
        Tensor::full({padded(numbers, p) / p}, std::numeric_limits<double>::quiet_NaN(),
                     DType::bf16);
      unit->unshard();
      require(parameters[0]->value.dtype() == DType::bf16,
              fmt::format("gathered in bf16, and the layers' weights are {}",
                          parameters[0]->value.describe()));
      Clues clues;  // 0 to 12 are the same in bf16
      clues.what = fmt::format("the weights gathered in bf16, rank {} of {}", world.rank(), p);
      clues.ranks = p;
      require(compare(values_of(parameters), counted_up(), 0, clues));
    });
  CHECK(true);
}

TEST_CASE("15.3: once the gather is done the converted copy is let go of") {
  run(3, [&](Communicator& world) {
    const auto unit = solution.make_unit(make_parameters(DType::f32), world, DType::bf16);
    const int64_t before = context().ledger.memory()->live();
    unit->unshard();
    const int64_t whole = padded(numbers, 3) * 2;
    const int64_t borrowed = context().ledger.memory()->live() - before;
    require(
        borrowed <= whole,
        fmt::format("after unshard() {} bytes are held beside the shards, and the whole weights "
                    "need {}: `sent_`, the converted copy of the shard, is let go of once the "
                    "gather is done",
                    borrowed, whole));
  });
  CHECK(true);
}

TEST_CASE("15.4: reshard frees the whole weights, and they can be gathered anew") {
  for (const bool narrow : {false, true})  // true: gathered in another type than the shards have
    run(3, [&](Communicator& world) {
      const auto parameters = make_parameters(narrow ? DType::f32 : DType::f64);
      const auto unit =
          solution.make_unit(parameters, world, narrow ? DType::bf16 : std::optional<DType>());
      for (int times = 0; times < 2; ++times) {
        unit->unshard();
        unit->reshard();
        require(live(MemoryKind::buffers) == 0,
                fmt::format("after reshard() {} bytes are still borrowed: {}",
                            live(MemoryKind::buffers),
                            live(MemoryKind::buffers) < padded(numbers, 3) * 2
                                ? "`sent_`, the converted copy of the shard, which unshard() lets "
                                  "go of once the gather is done: that is 15.3's"
                                : "whole weights, held by `whole_`, or by the layers' weights, "
                                  "which are views of it"));
        require(!unit->is_gathered(), "after reshard() is_gathered() still says yes");
        for (const ParameterShard& shard : unit->shards())
          shard.parameter->value.fill(times);  // a step
      }
      unit->unshard();
      require(values_of(parameters)[3] == 1,
              "after a step of the optimizer unshard() gives the weights of before");
    });
  CHECK(true);
}

TEST_CASE("15.5: two gathers and one reduction send 3N (p-1)/p elements") {
  for (const int p : exercise::ranks({4, 2, 3}))
    run_before(&AnyUnit::finish_reduce, p, [&](Communicator& world) {
      const std::vector<ParameterPtr> parameters = make_parameters();
      auto unit = solution.make_unit(parameters, world, {});
      for (int twice = 0; twice < 2; ++twice) {  // for forward and for backward
        unit->unshard();
        unit->reshard();
      }
      backward_unit(*unit, parameters, world.rank(), 0);
      const int64_t N = padded(numbers, p);
      const int64_t sent = sent_by_now(world) / 8;
      const double moved = static_cast<double>(sent * p) / static_cast<double>((p - 1) * N);
      require(sent == 3 * N / p * (p - 1),
              fmt::format("{}N moved, not 3N (times (p-1)/p, on {} ranks): an all_gather moves N, "
                          "a reduce_scatter N, an all_reduce 2N",
                          moved, p));
      return unit;
    });
  CHECK(true);
}

TEST_CASE("15.5: reduce starts and does not wait; the layers' gradients are gone") {
  const auto body = [](Communicator& world) {
    const std::vector<ParameterPtr> parameters = make_parameters();
    auto unit = solution.make_unit(parameters, world, {});
    Numbers token = {1};
    if (world.rank() == 1) world.recv(token, 0);
    backward_unit(*unit, parameters, world.rank(), 0);
    require(!parameters[0]->grad.defined(),
            "after reduce() the layers still hold views of the gradients: drop_gradients()");
    if (world.rank() == 0) world.send(token, 1);
    return unit;
  };
  try {
    run_before(&AnyUnit::finish_reduce, 2, body);
  } catch (const Deadlock&) {
    FAIL(
        "right, but reduce() waits for what it starts: use reduce_scatter_async, and wait in "
        "finish_reduce().");
  }
  CHECK(true);
}

TEST_CASE("15.5: the gradients of bf16 weights travel and are summed in f32") {
  run_before(&AnyUnit::finish_reduce, 2, [](Communicator& world) {
    const std::vector<ParameterPtr> parameters = make_parameters(DType::bf16);
    auto unit = solution.make_unit(parameters, world, {});
    const std::string text =
        exercise::error_of([&] { backward_unit(*unit, parameters, world.rank(), 0); });
    require(text.empty(), "reduce() of bf16 weights, whose gradients are f32, failed: " + text +
                              ". `reduced_` is of the gradients' type");
    const int64_t shard = padded(numbers, 2) / 2, sent = sent_by_now(world);
    require(sent == shard * 4,
            fmt::format("{} bytes sent where a half of the f32 gradients has {}: they travel as "
                        "they are, though the weights are bf16",
                        sent, shard * 4));
    return unit;
  });
  CHECK(true);
}

// A remark, as in 15.2.
TEST_CASE("15.5: what reduce makes is counted as borrowed") {
  run_before(&AnyUnit::finish_reduce, 2, [](Communicator& world) {
    const std::vector<ParameterPtr> parameters = make_parameters();
    auto unit = solution.make_unit(parameters, world, {});
    backward_unit(*unit, parameters, world.rank(), 0);
    const int64_t least = (padded(numbers, 2) + padded(numbers, 2) / 2) * 8;
    require(live(MemoryKind::buffers) >= least,
            fmt::format("after reduce() {} bytes are counted as borrowed; the gradients and this "
                        "rank's part of the sum take {}: make `reduced_` in the scope of a "
                        "MemoryScope of MemoryKind::buffers",
                        live(MemoryKind::buffers), least));
    return unit;
  });
  CHECK(true);
}

TEST_CASE("15.6: every piece's gradient is the sum over ranks, and microbatches add up") {
  for (const int p : exercise::ranks({4, 1, 2, 3})) {
    std::vector<Numbers> parts(static_cast<size_t>(p));
    run(p, [&](Communicator& world) {
      const std::vector<ParameterPtr> parameters = make_parameters();
      const auto unit = solution.make_unit(parameters, world, {});
      int final = 0;
      for (const ParameterShard& shard : unit->shards())
        shard.parameter->on_grad_ready = [&](Parameter&) { ++final; };
      for (int microbatch = 0; microbatch < 2; ++microbatch) {
        backward_unit(*unit, parameters, world.rank(), microbatch);
        unit->finish_reduce();
        const int64_t arrived = context().ledger.total_traffic().bytes_received;
        require(arrived >= (microbatch + 1) * padded(numbers, p) / p * (p - 1) * 8,
                "finish_reduce() adds `reduced_` before the sum is there: reducing_.wait() first");
      }
      for (const ParameterShard& shard : unit->shards())
        for (const double g : shard.parameter->gradient().values())
          parts[static_cast<size_t>(world.rank())].push_back(g);
      require(live(MemoryKind::buffers) == 0,
              fmt::format("after finish_reduce() {} bytes are still borrowed: free both "
                          "`gradients_` and `reduced_`",
                          live(MemoryKind::buffers)));
      require(final == 2 * std::ssize(unit->shards()),
              fmt::format("{} shards in 2 microbatches said {} times that their gradient is "
                          "final; each does, once per microbatch: mark_grad_ready(0)",
                          unit->shards().size(), final));
    });
    Clues clues;
    clues.what = fmt::format("the gradients of {} ranks and 2 microbatches", p);
    clues.ranks = p;
    Numbers all, expected(numbers), last(numbers);
    for (const Numbers& part : parts) all.insert(all.end(), part.begin(), part.end());
    for (int64_t i = 0; i < numbers; ++i)
      for (int r = 0; r < p; ++r)
        for (int m = 0; m < 2; ++m) {
          expected[static_cast<size_t>(i)] += local_gradient(r, m, i);
          if (m == 1) last[static_cast<size_t>(i)] += local_gradient(r, m, i);
        }
    clues.suspects = {{"the last microbatch's alone: add to the gradient, do not set it", last}};
    expect(compare(all, expected, 1e-12, clues));
  }
}

TEST_CASE("15.7: forward gives the model's outputs on every rank") {
  const Probe::Listener nobody = [](char, int) {};
  Saved serial = training();
  const std::vector<LayerPtr> whole = make_net(nobody);
  const Numbers expected = forward_rows(whole, serial, 0, 0, 2).values();
  for (const int p : exercise::ranks({4, 1, 3}))
    run(p, [&](Communicator& world) {
      const std::vector<LayerPtr> model = make_net(nobody);
      const auto fsdp = solution.make_fsdp(model, world, {});
      Saved saved = training();
      const Tensor y = forward_rows(fsdp->stack(), saved, 0, 0, 2);
      Clues clues;
      clues.what = fmt::format("the outputs, rank {} of {}", world.rank(), p);
      clues.ranks = p;
      require(compare(y.values(), expected, 1e-12, clues));
    });
  CHECK(true);
}

TEST_CASE("15.7: two units are whole at a time in forward, no more") {
  int64_t most = 0;
  watch_pass({}, 'F', [&](AnyFsdp&, char, int) {
    most = std::max(most, live(MemoryKind::buffers) / (one_layer * 8));
  });
  expect(most <= 2, fmt::format("{} units live in forward, 2 allowed: the one that computes and "
                                "the one on its way; reshard a unit when it has computed",
                                most));
}

TEST_CASE("15.7: unit i + 1 is on its way while unit i computes") {
  watch_pass({}, 'F', [](AnyFsdp& fsdp, char, int unit) {
    expect_fetched(gathered_beside(fsdp, unit), unit + 1, fmt::format("forward of unit {}", unit));
  });
  watch_pass({.prefetch = false}, 'F', [](AnyFsdp& fsdp, char, int unit) {
    expect_fetched(gathered_beside(fsdp, unit), -1,
                   fmt::format("without prefetch, forward of unit {}", unit));
  });
  CHECK(true);
}

TEST_CASE("15.7: this unit is gathered before the next") {
  expect_own_gather_first('F');
  CHECK(true);
}

TEST_CASE("15.7: what stays whole for backward stays in training only") {
  run(2, [](Communicator& world) {
    const Probe::Listener nobody = [](char, int) {};
    const std::vector<LayerPtr> model = make_net(nobody);
    const auto fsdp = solution.make_fsdp(model, world, {.keep_last = true});
    Saved saved = training(), evaluation;
    forward_rows(fsdp->stack(), evaluation, 0, 0, 2);
    require(gathered_beside(*fsdp, -1).empty(),
            fmt::format("after an evaluation unit {} is still whole; no backward follows, and the "
                        "next step would leave it out of date: look at saved.position().training",
                        list(gathered_beside(*fsdp, -1))));
    forward_rows(fsdp->stack(), saved, 0, 0, 2);
    require(
        gathered_beside(*fsdp, -1) == std::vector<int>{8},
        fmt::format("with keep_last unit 8 stays whole after a training forward; whole here: {}",
                    list(gathered_beside(*fsdp, -1))));
  });
  CHECK(true);
}

TEST_CASE("15.7: a unit of two slices is gathered once, for both") {
  run(2, [](Communicator& world) {
    const std::vector<LayerPtr> model = make_tied_net();
    const auto fsdp = solution.make_fsdp(model, world, {});
    Saved evaluation;
    forward_rows(fsdp->stack(), evaluation, 0, 0, 2);
    require(units_sent("fsdp.all_gather") == 2,
            fmt::format("an evaluation gathered {} units, and the model has 2, one with two "
                        "slices: reshard it after the last of them (slice_.is_last)",
                        units_sent("fsdp.all_gather")));
    require(gathered_beside(*fsdp, -1).empty(),
            "after an evaluation the unit of two slices is still whole: reshard it after the last "
            "of them (slice_.is_last)");
  });
  CHECK(true);
}

TEST_CASE("15.8: unit i - 1 is on its way while backward computes unit i") {
  std::vector<int> before;
  watch_pass({}, 'I', [&](AnyFsdp& fsdp, char what, int unit) {
    const std::vector<int> now = gathered_beside(fsdp, unit);
    std::vector<int> fetched = now;
    std::erase_if(fetched, [&](int u) { return std::count(before.begin(), before.end(), u) > 0; });
    before = now;
    if (what == 'I' && unit == 5) expect_fetched(fetched, 4, "backward of unit 5");
    if (what == 'R')
      require(!fsdp.units()[static_cast<size_t>(unit)]->is_gathered(),
              fmt::format("unit {} is still whole after its backward_input(): reshard it after "
                          "dgrad",
                          unit));
  });
  watch_pass({}, 'I', [](AnyFsdp& fsdp, char what, int unit) {
    if (what == 'I')
      expect_fetched(gathered_beside(fsdp, unit), unit - 1,
                     fmt::format("backward of unit {}, with what is still whole", unit));
  });
  CHECK(true);
}

TEST_CASE("15.8: this unit is gathered before the next") {
  expect_own_gather_first('I');
  CHECK(true);
}

TEST_CASE("15.8: a unit of two slices stays whole until the first has its dx") {
  run(2, [](Communicator& world) {
    const std::vector<LayerPtr> model = make_tied_net();
    const auto fsdp = solution.make_fsdp(model, world, {});
    Saved saved = training();
    Tensor dy = forward_rows(fsdp->stack(), saved, 0, 0, 2);
    for (size_t i = model.size(); i-- > 0;) {
      Layer& layer = *fsdp->stack()[i];
      dy = layer.backward_input(dy, saved.child(layer.name()));
    }
    require(units_sent("fsdp.all_gather") == 3,
            fmt::format("forward and backward gathered {} units, not 3: the unit of two slices "
                        "once, the one between them twice. Backward reshards a unit after its "
                        "first slice (slice_.is_first)",
                        units_sent("fsdp.all_gather")));
    require(gathered_beside(*fsdp, -1).empty(),
            "after backward the unit of two slices is still whole: reshard it after the first of "
            "them (slice_.is_first)");
  });
  CHECK(true);
}

TEST_CASE("15.8: dx is the single rank's") {
  const Probe::Listener nobody = [](char, int) {};
  const auto dx_of = [](Layers stack) {
    Saved saved = training();
    const Tensor y = forward_rows(stack, saved, 0, 0, 2);
    return stack.front()->backward_input(y, saved.child(stack.front()->name())).values();
  };
  const std::vector<LayerPtr> whole = make_net(nobody);
  const Numbers expected = dx_of(whole);
  run(3, [&](Communicator& world) {
    const std::vector<LayerPtr> model = make_net(nobody);
    const auto fsdp = solution.make_fsdp(model, world, {.prefetch = false});
    Clues clues;
    clues.what = fmt::format("dx of unit 0, rank {} of 3", world.rank());
    clues.ranks = 3;
    require(compare(dx_of(fsdp->stack()), expected, 1e-12, clues));
  });
  CHECK(true);
}

TEST_CASE("15.9: wgrad needs no weights, and one reduction is under way at a time") {
  int64_t most = 0;
  try {
    const auto look = [&] { most = std::max(most, live(MemoryKind::buffers)); };
    watch_pass({}, 'W', [&](AnyFsdp& fsdp, char what, int unit) {
      look();
      const AnyUnit& own = *fsdp.units()[static_cast<size_t>(unit)];
      for (const ParameterShard& shard : own.shards())  // while its reduction is finished
        shard.parameter->on_grad_ready = [&](Parameter&) { look(); };
      if (what == 'W')
        require(!own.is_gathered(),
                fmt::format("unit {} is whole while its wgrad runs, which needs x and dy only: "
                            "it is resharded after dgrad",
                            unit));
    });
  } catch (const CommError& error) {
    if (std::string(error.what()).find("Work of reduce_scatter") == std::string::npos) throw;
    FAIL(
        "a reduction was started while another was under way, which nobody finished: finish the "
        "reduction of *neighbours_.reducing before starting this unit's, and note that it is "
        "this unit's now");
  }
  // At most two units of weights and the gradients of the unit before, with this rank's half of
  // their sum.
  const int64_t allowed = (3 * one_layer + one_layer / 2) * 8;
  expect(most <= allowed,
         fmt::format("{} bytes borrowed at the peak of backward, {} allowed: finish the reduction "
                     "of the unit before, and with it its gradients, before starting this one's",
                     most, allowed));
}

TEST_CASE("15.9: three steps on 1 to 4 ranks end with the single rank's weights") {
  const Probe::Listener nobody = [](char, int) {};
  const std::vector<LayerPtr> whole = make_net(nobody);
  AdamW serial(parameters(Layers(whole)));
  for (int64_t step = 0; step < 3; ++step) {
    zero_gradients(whole);
    pass(whole, step, 0, rows);
    serial.step(0.01);
  }
  Numbers expected;
  for (const ParameterPtr& each : parameters(Layers(whole)))
    for (const double value : each->value.values()) expected.push_back(value);

  for (const int p : exercise::ranks({4, 1, 2, 3})) {
    Numbers all(expected.size());
    run(p, [&](Communicator& world) {
      const std::vector<LayerPtr> model = make_net(nobody);
      const auto fsdp = solution.make_fsdp(model, world, {});
      AdamW optimizer(parameters(fsdp->stack()));
      for (int64_t step = 0; step < 3; ++step) {
        zero_gradients(fsdp->stack());
        pass(fsdp->stack(), step, chunk_begin(rows, p, world.rank()),
             chunk_begin(rows, p, world.rank() + 1));
        fsdp->finish();
        optimizer.step(0.01);
      }
      const std::vector<AnyUnit*> units = fsdp->units();
      for (size_t u = 0; u < units.size(); ++u)
        for (const ParameterShard& shard : units[u]->shards()) {
          const Numbers values = shard.parameter->value.values();
          std::copy(values.begin(), values.end(),
                    all.begin() + static_cast<int64_t>(u) * one_layer + shard.first);
        }
    });
    Clues clues;
    clues.what = fmt::format("weights after 3 steps on {} ranks", p);
    clues.ranks = p;
    expect(compare(all, expected, 1e-12, clues));
  }
}

TEST_CASE("15.9: a unit of two slices is reduced once, with the gradients of both") {
  const std::vector<LayerPtr> whole = make_tied_net();
  pass(whole, 0, 0, 2);
  const Numbers expected = parameters(Layers(whole)).front()->grad.values();
  run(2, [&](Communicator& world) {
    const std::vector<LayerPtr> model = make_tied_net();
    const auto fsdp = solution.make_fsdp(model, world, {});
    pass(fsdp->stack(), 0, world.rank(), world.rank() + 1);
    fsdp->finish();
    require(units_sent("fsdp.reduce") == 2,
            fmt::format("{} reductions for 2 units, one with two slices: reduce it after the "
                        "wgrads of its first slice, which backward reaches last (slice_.is_first)",
                        units_sent("fsdp.reduce")));
    for (const ParameterShard& shard : fsdp->units()[0]->shards()) {
      const auto begin = expected.begin() + shard.first;
      Clues clues;
      clues.what = fmt::format(
          "the gradient of a weight with two slices (reduced after the "
          "wgrads of both?), rank {} of 2",
          world.rank());
      clues.ranks = 2;
      const Tensor& actual = shard.parameter->gradient();
      require(compare(actual.values(), {begin, begin + actual.numel()}, 1e-12, clues));
    }
  });
  CHECK(true);
}
