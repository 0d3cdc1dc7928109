// The CUDA ladder of attention against two matmuls of cuBLAS with a softmax between, and against
// cuDNN's attention, in one run: forward, backward, and decoding with a long cache.
//
// cuDNN is asked through PyTorch's scaled_dot_product_attention, which is made to take cuDNN's and
// no other: its own interface is a graph of some twenty descriptors. Without such a PyTorch, and
// where cuDNN has no kernel for a setting, the column is empty and the run says so.
//
// FLOPs are 4 T^2 d for a head, half of them with a causal mask, and 2.5 times as many backward, as
// FlashAttention's authors count. Without a GPU, or built without nvcc, it says so and ends with
// 77, "not run".
#include "gpu_attention.hpp"

#include <cmath>

#include "bench.hpp"
#include "course/options/console.hpp"
#include "gpu_program.hpp"
#include "torch_peer.hpp"
#include "yotta/core/cpu/measure.hpp"

namespace {

using namespace yotta;

struct Options {
  std::string json;
  std::vector<int> lengths =
      bench::in_emulator ? std::vector{64} : std::vector{512, 1024, 2048, 4096, 8192, 16384};
  std::vector<int> head_sizes = {64, 128};
  double seconds = 0.5;
};

#ifdef YOTTA_HAVE_CUDA

constexpr const char* script = R"(
import time, torch
from torch.nn.attention import sdpa_kernel, SDPBackend
torch.cuda.get_device_name(0)
def measure(words):
    what, B, T, H, d, causal, seconds = words.split()
    B, T, H, d = int(B), int(T), int(H), int(d)
    make = lambda: torch.randn(B, T, H, d, dtype=torch.bfloat16, device='cuda').transpose(1, 2)
    q, k, v = (make().requires_grad_(what == 'backward') for _ in range(3))
    dout, best, start = make(), float('nan'), time.perf_counter()
    try:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            sdpa = lambda: torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=causal == '1')
            o = sdpa()
            once = sdpa if what == 'forward' else lambda: torch.autograd.grad(
                o, (q, k, v), dout, retain_graph=True)
            once()
            while not time.perf_counter() - start > float(seconds) or best != best:
                torch.cuda.synchronize()
                begin = time.perf_counter()
                once()
                torch.cuda.synchronize()
                took = time.perf_counter() - begin
                best = took if best != best else min(best, took)
    except RuntimeError:  # no kernel for this setting
        return float('nan')
    return best
)";

// cuDNN's TFLOP/s forward or backward; NaN if nobody can say.
double cudnn_tflops(bench::TorchPeer& torch, const bench::AttentionSetting& setting, bool backward,
                    double seconds) {
  if (!torch.found()) return std::nan("");
  const int B = setting.sequences(), H = setting.heads();
  const double took =
      torch.seconds(fmt::format("{} {} {} {} {} {:d} {}", backward ? "backward" : "forward", B,
                                setting.T, H, setting.d, setting.causal, seconds));
  const double scores = static_cast<double>(B) * H * setting.T * setting.T;
  return (backward ? 5 : 2) * 2 * scores * setting.d / (setting.causal ? 2 : 1) / took * 1e-12;
}

// Prints the kernels in one setting; true if all agree.
bool add_setting(const bench::AttentionSetting& setting, double seconds, bench::TorchPeer& torch,
                 bench::Json& rows) {
  const double cudnn[] = {cudnn_tflops(torch, setting, false, seconds),
                          cudnn_tflops(torch, setting, true, seconds)};
  const std::vector<bench::GpuAttention> all = bench::measure_gpu_attention(
      setting, [&](const auto& batch) { return shortest_of_batches(seconds, batch); });
  console::Table table(
      {fmt::format("T {}, d {}{}", setting.T, setting.d, setting.causal ? ", causal" : ""),
       "TFLOP/s", "times cuBLAS", "times cuDNN", "difference"});
  bool right = true;
  for (const bench::GpuAttention& row : all) {
    const double of_cudnn = row.tflops / cudnn[row.backward];
    table.row({row.name, fmt::format("{:.1f}", row.tflops),
               fmt::format("{:.2f}", row.tflops / all[0].tflops),
               std::isnan(of_cudnn) ? "-" : fmt::format("{:.2f}", of_cudnn),
               fmt::format("{:.1e}", row.difference)});
    rows.push_back({{"kernel", row.name},
                    {"T", setting.T},
                    {"d", setting.d},
                    {"causal", setting.causal},
                    {"tflops", row.tflops},
                    {"of_cublas", row.tflops / all[0].tflops},
                    {"of_cudnn", std::isnan(of_cudnn) ? bench::Json() : bench::Json(of_cudnn)},
                    {"difference", row.difference}});
    if (!(row.difference < 0.03)) right = false;  // P is rounded to bf16 in all of them
  }
  for (const bool backward : {false, true})
    if (const double rate = cudnn[backward]; !std::isnan(rate))
      table.row({backward ? "cuDNN, backward" : "cuDNN, forward", fmt::format("{:.1f}", rate),
                 fmt::format("{:.2f}", rate / all[0].tflops), "1.00", "-"});
  fmt::print("{}\n", table.text());
  return right;
}

void add_decoding(double seconds, bench::Json& rows) {
  console::Table table({"a token, d 128", "keys", "heads", "splits", "GB/s of the cache"});
  const int less = bench::in_emulator ? 1024 : 1;
  for (const auto& [sequences, keys, H, Hkv] : {bench::DecodingSetting{1, 65536 / less, 32, 8},
                                                {1, 65536 / less, 32, 32},
                                                {16, 8192 / less, 32, 8}}) {
    const std::vector<bench::GpuDecoding> all = bench::measure_gpu_decoding(
        {sequences, keys, H, Hkv},
        [&](const auto& batch) { return shortest_of_batches(seconds, batch); });
    for (const bench::GpuDecoding& row : all) {
      table.row({row.name, fmt::format("{} x {}", sequences, keys), fmt::format("{}/{}", H, Hkv),
                 fmt::format("{}", row.splits), fmt::format("{:.0f}", row.gigabytes_a_second)});
      rows.push_back({{"kernel", row.name},
                      {"sequences", sequences},
                      {"keys", keys},
                      {"Hkv", Hkv},
                      {"splits", row.splits},
                      {"gigabytes_a_second", row.gigabytes_a_second}});
    }
  }
  fmt::print("{}\n", table.text());
}

// What the course wants of the tensor-core rung: FlashAttention-2's published rate on an H100.
void print_aim(const bench::Json& rows) {
  constexpr double aim = 335;
  double best = 0;
  for (const bench::Json& row : rows)
    if (row["kernel"] == "FlashAttention-2, mma.sync")
      best = std::max(best, row["tflops"].get<double>());
  fmt::print("forward reaches {:.0f} TFLOP/s at best; the aim on an H100 is {:.0f}: {}\n", best,
             aim, best >= aim ? "reached" : "not reached");
}

int run(Options options) {
  if (bench::in_emulator) options.seconds = 1e-9;
  const std::string gpu = bench::gpu_name();
  if (gpu.empty()) return bench::not_run("there is no GPU here");
  bench::TorchPeer torch(script);
  fmt::print("{}; cuDNN: {}\n\n", gpu, torch.about());
  bench::Json rows = bench::Json::array(), decoding = bench::Json::array();
  bool right = true;
  for (const int d : options.head_sizes)
    for (const bool causal : {false, true})
      for (const int T : options.lengths)
        right = add_setting({T, d, causal}, options.seconds, torch, rows) && right;
  add_decoding(options.seconds, decoding);
  print_aim(rows);
  if (!right) fmt::print(stderr, "a kernel differs by more than 3%\n");
  return bench::end_with(right, options.json,
                         {{"benchmark", "gpu_attention"},
                          {"gpu", gpu},
                          {"torch", torch.about()},
                          {"rows", rows},
                          {"decoding", decoding}});
}

#else

int run(const Options&) { return bench::not_run(bench::no_nvcc); }

#endif

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The CUDA ladder of attention against cuBLAS and cuDNN, in TFLOP/s"};
  Options options;
  app.add_option("--json", options.json, "also write the rows to this file");
  app.add_option("--lengths", options.lengths, "tokens of a sequence")->check(CLI::Range(1, 65536));
  app.add_option("--head-sizes", options.head_sizes, "numbers of a head")
      ->check(CLI::IsMember({64, 128}));
  app.add_option("--seconds", options.seconds, "time for each kernel")
      ->check(CLI::Range(0.01, 60.0));
  return bench::run_benchmark(app, argc, argv, [&] { return run(options); });
}
