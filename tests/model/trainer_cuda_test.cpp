// The training step on Device::cuda, here by the emulator: the same losses and weights as on the
// CPU. cuBLAS is one that needs no GPU (support/cublas_stand_in).
#include "yotta/model/trainer.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "support/message_of.hpp"
#include "yotta/device/cuda/strided_matmul.hpp"
#include "yotta/device/emulator/stream_queue.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/cuda/cuda_kernels.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/nn/transformer.hpp"

#define YOTTA_HAVE_CUDA
#include "yotta/device/cuda/cublas_matmul.hpp"
#undef YOTTA_HAVE_CUDA

using namespace yotta;
using namespace yotta_test;

namespace {

struct CudaRun {
  std::vector<double> losses, norms;
  std::vector<std::vector<double>> weights;
  int64_t live = 0;
};

// Some steps on a device: two microbatches per step, AdamW, clipping.
CudaRun run_on_device(Device device, const TransformerConfig& config) {
  RankContext rank;
  rank.device = device;
  const ContextScope scope(rank);
  CudaRun run;
  {
    Transformer model(config);
    AdamW optimizer(parameters(model.stack()));
    Trainer trainer(model.stack(), optimizer,
                    {.schedule = {0.02, 0.02, 0, 10}, .clip = 0.5, .seed = 3});
    std::vector<int32_t> tokens;
    for (int i = 0; i < 3 * 7; ++i) tokens.push_back(i * 5 % 11);
    const Tensor ids = Tensor::from<int32_t>(tokens, {3, 7});
    std::rotate(tokens.begin(), tokens.begin() + 1, tokens.end());
    const Tensor targets = Tensor::from<int32_t>(tokens, {3, 7});
    for (int64_t step = 0; step < 3; ++step) {
      const StepReport report = trainer.step(step, microbatches(ids, targets, 2), 21);
      run.losses.push_back(report.loss);
      run.norms.push_back(report.gradient_norm);
    }
    for (const ParameterPtr& each : parameters(model.stack())) {
      CHECK(each->value.device() == device);
      // A key's bias has no gradient but rounding, which AdamW makes as large as any other: in bf16
      // the gradient is looked at, and not what became of it.
      if (config.dtype == DType::bf16 && each->name.ends_with(".k.bias"))
        for (const double g : each->grad.values()) CHECK(std::abs(g) <= 0.001);
      else
        run.weights.push_back(each->value.values());
    }
    run.live = rank.ledger.memory()->live();
  }
  CHECK(rank.ledger.memory()->live() == 0);
  return run;
}

void check_cuda_training(const TransformerConfig& config, double tolerance) {
  install_accelerator();
  install_kernels();
  install_course_matmul();
  const CudaRun here = run_on_device(Device::cpu, config),
                there = run_on_device(Device::cuda, config);
  CHECK(there.live == here.live);
  CHECK(here.losses[2] < here.losses[0]);
  const auto check_near = [&](const std::vector<double>& a, const std::vector<double>& b) {
    REQUIRE(a.size() == b.size());
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i)
      if (!(std::abs(a[i] - b[i]) <= worst)) worst = std::abs(a[i] - b[i]);
    CHECK(worst <= tolerance);
  };
  check_near(there.losses, here.losses);
  check_near(there.norms, here.norms);
  for (size_t i = 0; i < here.weights.size(); ++i) check_near(there.weights[i], here.weights[i]);
}

// What a rank asks of its device; allocations: of the driver.
struct DeviceCalls {
  int64_t launches = 0, allocations = 0, zeros = 0, copies = 0, waits = 0;
};
class CountedAccelerator : public CudaAccelerator {
 public:
  DeviceCalls calls;
  std::vector<std::string> ranges;               // their names as they begin; "." where one ends
  CountedAccelerator() { keeps_memory = true; }  // as on a GPU
  void begin_range(const std::string& name) override { ranges.push_back(name); }
  void end_range() override { ranges.push_back("."); }
  void* ask_driver(int64_t bytes, Where where) override {
    ++calls.allocations;
    return CudaAccelerator::ask_driver(bytes, where);
  }
  void copy(void* to, const void* from, int64_t bytes, Transfer transfer) override {
    ++calls.copies;
    CudaAccelerator::copy(to, from, bytes, transfer);
  }
  void copy_rows(void* to, int64_t to_row, const void* from, int64_t from_row, int64_t bytes,
                 int64_t rows) override {
    ++calls.copies;
    CudaAccelerator::copy_rows(to, to_row, from, from_row, bytes, rows);
  }
  void zero(void* memory, int64_t bytes) override {
    ++calls.zeros;
    CudaAccelerator::zero(memory, bytes);
  }
  void wait(Where where) override {
    ++calls.waits;
    CudaAccelerator::wait(where);
  }
};

int64_t launches_so_far() {
  return static_cast<int64_t>(StreamQueue::instance().launches) + cublas_calls.products;
}

// The third step of a model of so many layers, one microbatch: the first makes the gradients, the
// second finds its memory among what is left. A product of cuBLAS's is a launch.
DeviceCalls calls_of_step(int64_t layers, DType dtype, void (*install_matmul)()) {
  install_kernels();
  install_matmul();
  CountedAccelerator device;
  accelerator() = &device;
  RankContext rank;
  rank.device = Device::cuda;
  const ContextScope scope(rank);
  {
    TransformerConfig config = gpt2_config(layers, 32, 1, 8, 11);  // d 32: attention by tiles
    config.dtype = dtype;
    Transformer model(config);
    AdamW optimizer(parameters(model.stack()));
    Trainer trainer(model.stack(), optimizer, {.schedule = {0.02, 0.02, 0, 10}, .clip = 0.5});
    const Tensor ids = Tensor::from<int32_t>({1, 2, 3, 4, 5, 6, 7, 8}, {1, 8});
    for (int64_t step = 0; step < 3; ++step) {
      device.calls = {};
      device.calls.launches = -launches_so_far();
      trainer.step(step, microbatches(ids, ids, 1), 8);
    }
    device.calls.launches += launches_so_far();
  }
  install_accelerator();
  return device.calls;
}

}  // namespace

// Not more than these, of a layer: a third of the 103 launches, 35 allocations and 19 zeros that an
// op at a time takes, or less. The optimizer, the norm and the zeros are a few launches for all
// parameters; a kernel for each of 16 would be 48 more. cuBLAS takes q, k and v, and each of their
// gradients, by a launch of its own. Memory is that of the step before. Nothing waits for the GPU
// but the report, once.
TEST_CASE("what a layer and a step ask of the GPU") {
  struct Bound {
    DType dtype;
    void (*install_matmul)();
    DeviceCalls most;
  };
  for (const auto& [dtype, install_matmul, most] :
       {Bound{DType::f32, install_course_matmul, {32, 0, 3, 0, 0}},
        {DType::bf16, install_course_matmul, {32, 0, 0, 0, 0}},
        {DType::f32, install_cublas_matmul, {38, 0, 3, 0, 0}},
        {DType::bf16, install_cublas_matmul, {38, 0, 0, 0, 0}}}) {
    CAPTURE(std::string(name(dtype)));
    CAPTURE(install_matmul == install_cublas_matmul);
    const DeviceCalls one = calls_of_step(1, dtype, install_matmul),
                      two = calls_of_step(2, dtype, install_matmul);
    CHECK(two.launches - one.launches <= most.launches);
    CHECK(two.allocations == most.allocations);
    CHECK(two.zeros - one.zeros <= most.zeros);
    CHECK(two.copies - one.copies <= most.copies);
    CHECK(two.waits - one.waits <= most.waits);
    CHECK(two.waits == 1);
  }
}

TEST_CASE("a step that must not be taken changes nothing") {
  install_accelerator();
  install_kernels();
  install_course_matmul();
  RankContext rank;
  rank.device = Device::cuda;
  const ContextScope scope(rank);
  const Tensor ids = Tensor::from<int32_t>({1, 2, 3, 4}, {1, 4});
  Transformer model(gpt2_config(1, 16, 2, 4, 11));
  const std::vector<ParameterPtr> all = parameters(model.stack());
  AdamW optimizer(all);
  Trainer trainer(model.stack(), optimizer, {.schedule = {0.02, 0.02, 0, 10}});
  const auto step = [&](int64_t number) { trainer.step(number, microbatches(ids, ids, 1), 4); };
  const Tensor norm = all[2]->value, sound = norm.clone();
  norm.rows(0, 1).zero();
  Tensor broken = norm;
  broken.fill(std::numeric_limits<double>::infinity());
  const std::vector<double> before = all[0]->value.values();
  CHECK(contains(message_of([&] { step(0); }), "a number is not finite"));
  CHECK(all[0]->value.values() == before);
  CHECK(optimizer.steps() == 0);
  broken.copy_from(sound);
  step(1);
  CHECK(all[0]->value.values() != before);
  CHECK(optimizer.steps() == 1);  // the one that was taken
}

TEST_CASE("a wrong id is found on the device, and told where the host next waits") {
  install_accelerator();
  install_kernels();
  install_course_matmul();
  RankContext rank;
  rank.device = Device::cuda;
  const ContextScope scope(rank);
  Transformer model(gpt2_config(1, 16, 2, 4, 11));
  AdamW optimizer(parameters(model.stack()));
  Trainer trainer(model.stack(), optimizer, {});
  const Tensor good = Tensor::from<int32_t>({1, 2, 3, 4}, {1, 4}),
               bad = Tensor::from<int32_t>({1, 2, 11, -7}, {1, 4});
  const Tensor weight = parameters(model.stack())[1]->value, before = weight.clone();
  const auto said = [&](const Tensor& ids, const Tensor& targets) {
    return message_of([&] { trainer.step(0, microbatches(ids, targets, 1), 4); });
  };
  CHECK(contains(said(bad, good), "embedding: id 11 of token 2 is outside the vocabulary of 11"));
  CHECK(contains(said(good, bad),
                 "cross_entropy: target 11 of token 2 is outside the vocabulary of 11"));
  CHECK(weight.values() == before.values());  // neither was taken
  CHECK(optimizer.steps() == 0);
  CHECK_NOTHROW(trainer.step(0, microbatches(good, good, 1), 4));
  CHECK(optimizer.steps() == 1);
}

namespace {

// A GPU's way: a stream of its own, where released memory is kept.
struct OwnStream {
  CountedAccelerator device;
  cudaStream_t stream = nullptr;
  OwnStream() {
    install_kernels();
    install_course_matmul();
    accelerator() = &device;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    compute_stream() = stream;
  }
  ~OwnStream() {
    device.give_back();
    static_cast<void>(cudaStreamSynchronize(stream));
    compute_stream() = nullptr;
    static_cast<void>(cudaStreamDestroy(stream));
    install_accelerator();
  }
};

struct GraphRun {
  std::vector<double> losses, weights;
  uint64_t launches = 0;  // of the last step
  int64_t steps = 0;
};

// Seven steps of other tokens each, two microbatches; the sixth has another length.
GraphRun run_steps(bool graph, const TransformerConfig& config) {
  OwnStream own;
  RankContext rank;
  rank.device = Device::cuda;
  const ContextScope scope(rank);
  Transformer model(config);
  AdamW optimizer(parameters(model.stack()));
  Trainer trainer(model.stack(), optimizer,
                  {.schedule = {0.02, 0.001, 2, 6}, .clip = 0.5, .graph = graph});
  GraphRun run;
  for (int64_t step = 0; step < 7; ++step) {
    const int64_t T = step == 5 ? 4 : 6;
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < 2 * T; ++i)
      tokens.push_back(static_cast<int32_t>((i * 5 + step * 3) % 11));
    const Tensor ids = Tensor::from<int32_t>(tokens, {2, T});
    const uint64_t before = StreamQueue::instance().launches;
    run.losses.push_back(trainer.step(step, microbatches(ids, ids, 2), 2 * T).loss);
    if (step == 4) run.launches = StreamQueue::instance().launches - before;
  }
  for (const ParameterPtr& each : parameters(model.stack()))
    for (const double value : each->value.values()) run.weights.push_back(value);
  run.steps = optimizer.steps();
  return run;
}

}  // namespace

TEST_CASE("a step that is recorded as a graph is the same step, to the last bit, by one launch") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    TransformerConfig config = gpt2_config(2, 16, 2, 8, 11);
    config.dtype = dtype;
    const GraphRun each = run_steps(false, config), graph = run_steps(true, config);
    CHECK(each.losses == graph.losses);
    CHECK(each.weights == graph.weights);
    CHECK(graph.steps == 7);
    CHECK(each.launches > 100);
    CHECK(graph.launches == 0);
  }
}

TEST_CASE("a wrong id that a graph finds is told in its words, whatever was checked since") {
  OwnStream own;
  RankContext rank;
  rank.device = Device::cuda;
  const ContextScope scope(rank);
  Transformer model(gpt2_config(1, 16, 2, 4, 11));
  AdamW optimizer(parameters(model.stack()));
  Trainer trainer(model.stack(), optimizer, {.graph = true});
  const Tensor good = Tensor::from<int32_t>({1, 2, 3, 4}, {1, 4}),
               bad = Tensor::from<int32_t>({1, 2, 11, -7}, {1, 4});
  for (int64_t step = 0; step < 4; ++step) trainer.step(step, microbatches(good, good, 1), 4);
  for (int i = 0; i < 1024; ++i)  // as when the model is evaluated on many microbatches
    own.device.late_checks.add([](int64_t, int64_t) { return std::string("later"); },
                               Where::current());
  CHECK(contains(message_of([&] { trainer.step(4, microbatches(bad, good, 1), 4); }),
                 "embedding: id 11 of token 2 is outside the vocabulary of 11"));
  CHECK(optimizer.steps() == 4);
}

TEST_CASE("a profiler sees steps, layers and phases, one in the other") {
  OwnStream own;
  RankContext rank;
  rank.device = Device::cuda;
  const ContextScope scope(rank);
  Transformer model(gpt2_config(1, 16, 2, 4, 11));
  AdamW optimizer(parameters(model.stack()));
  Trainer trainer(model.stack(), optimizer, {});
  const Tensor ids = Tensor::from<int32_t>({1, 2, 3, 4}, {1, 4});
  trainer.step(5, microbatches(ids, ids, 1), 4);
  std::vector<std::string> expected = {"step 5"};
  const auto add = [&](const char* of, const char* phase) {
    expected.insert(expected.end(), {std::string(of) + " " + phase, "."});
  };
  for (const char* layer : {"embedding", "layers.0", "head"}) add(layer, "forward");
  for (const char* layer : {"head", "layers.0", "embedding"})
    for (const char* phase : {"backward_input", "backward_weight"}) add(layer, phase);
  add("all", "optimizer");
  expected.push_back(".");
  CHECK(own.device.ranges == expected);
}

TEST_CASE("what a graph cannot have is refused with its reason") {
  OwnStream own;
  RankContext rank;
  rank.device = Device::cuda;
  const ContextScope scope(rank);
  TransformerConfig config = gpt2_config(1, 16, 2, 4, 11);
  config.dropout = 0.1;
  Transformer model(config);
  AdamW optimizer(parameters(model.stack()));
  Trainer trainer(model.stack(), optimizer, {.graph = true});
  const Tensor ids = Tensor::from<int32_t>({1, 2, 3, 4}, {1, 4});
  std::vector<Microbatch> batches = microbatches(ids, ids, 1);
  for (int64_t step = 0; step < 2; ++step) trainer.step(step, batches, 4);
  CHECK(contains(message_of([&] { trainer.step(2, batches, 4); }),
                 "which would copy the same ones in every step; dropout does so"));
  Tensor x = Tensor::zeros({4});
  CHECK(contains(message_of([&] { own.device.record([&] { x.values(); }, Where::current()); }),
                 "the host asks for values while a step is recorded"));
  CHECK(contains(
      message_of([&] { own.device.record([] { Tensor::zeros({1 << 20}); }, Where::current()); }),
      "more bytes are needed while a step is recorded"));
  x.fill(3);  // the stream and the memory are as before
  CHECK(x.values() == std::vector<double>(4, 3));
  compute_stream() = nullptr;
  CHECK(contains(message_of([&] { own.device.record([] {}, Where::current()); }),
                 "a step is recorded on a stream of its own"));
  compute_stream() = own.stream;
}

TEST_CASE("a graph is refused on the CPU, with another rule, and of packed sequences") {
  OwnStream own;
  const Tensor ids = Tensor::from<int32_t>({1, 2, 3, 4}, {1, 4});
  std::vector<Microbatch> batches = microbatches(ids, ids, 1);
  const auto said = [&](Device device, const auto& make) {
    RankContext rank;
    rank.device = device;
    const ContextScope scope(rank);
    Transformer model(gpt2_config(1, 16, 2, 4, 11));
    const auto optimizer = make(parameters(model.stack()));
    Trainer trainer(model.stack(), *optimizer, {.graph = true});
    return message_of([&] { trainer.step(0, batches, 4); });
  };
  const auto adamw = [](const auto& all) { return std::make_unique<AdamW>(all); };
  const auto sgd = [](const auto& all) { return std::make_unique<Sgd>(all); };
  const char* const alone = "a step is a graph only on one GPU that computes alone, with AdamW";
  CHECK(contains(said(Device::cpu, adamw), alone));
  CHECK(contains(said(Device::cuda, sgd), alone));
  batches[0].packing = std::make_shared<Packing>();
  CHECK(contains(said(Device::cuda, adamw), "a step with packed sequences is no graph"));
}

TEST_CASE("a graph's memory is nobody else's until it is gone") {
  OwnStream own;
  RankContext rank;
  rank.device = Device::cuda;
  const ContextScope scope(rank);
  Tensor sum = Tensor::zeros({1000});
  const auto body = [&] {
    const Tensor twice = add(sum, sum);
    sum.copy_from(twice);
  };
  sum.fill(1);
  body();
  std::unique_ptr<RecordedWork> graph = own.device.record(body, Where::current());
  CHECK(sum.item({0}) == 2);  // nothing was done
  const Tensor other = Tensor::full({1000}, 7);
  for (int i = 0; i < 2; ++i) graph->launch(Where::current());
  CHECK(sum.item({999}) == 8);
  CHECK(other.item({0}) == 7);
  const int64_t asked = own.device.calls.allocations;
  graph = nullptr;
  const Tensor again = Tensor::empty({1000});
  CHECK(own.device.calls.allocations == asked);
}

TEST_CASE("GPT-2's dialect on cuda: losses, norms and weights of the CPU, with dropout") {
  TransformerConfig config = gpt2_config(1, 16, 2, 7, 11);
  config.dtype = DType::f64;
  config.dropout = 0.1;
  check_cuda_training(config,
                      1e-8);  // a key's bias has no gradient but rounding, which AdamW magnifies
}

TEST_CASE("Llama's dialect on cuda, plain attention with dropout of probabilities") {
  TransformerConfig config = llama_config(1, 16, 24, 4, 2, 7, 11);
  config.dtype = DType::f64;
  check_cuda_training(config, 1e-8);
  config.attention = AttentionKind::plain;
  config.attention_dropout = 0.2;
  check_cuda_training(config, 1e-8);
}

TEST_CASE("f32 and bf16 weights on cuda") {
  TransformerConfig config = gpt2_config(1, 16, 2, 7, 11);
  check_cuda_training(config, 2e-3);
  config.dtype = DType::bf16;
  check_cuda_training(config, 2e-2);
}
