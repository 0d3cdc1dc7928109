// Flash attention on the CPU against this library's own matmul, and against PyTorch's
// scaled_dot_product_attention, side by side in one run.
//
// Causal, f32. A round measures, one after the other: a matmul of 1024 x 1024 x 1024, forward and
// backward here, forward and backward there. `of matmul` is the rate of attention, whose FLOPs are
// 2 T^2 d a head forward and 5 T^2 d backward (the causal half), over the matmul's; `ratio` is
// PyTorch's time over ours. Both are medians over the rounds' quotients.
// With --cpu-time processor time is counted, of all threads: for one thread, where other programs
// share the machine.
#include <fmt/core.h>

#include <string>
#include <vector>

#include "../course/options/console.hpp"
#include "attention_options.hpp"
#include "torch_peer.hpp"
#include "yotta/core/context.hpp"
#include "yotta/core/matmul.hpp"
#include "yotta/nn/flash_attention.hpp"

namespace {

using namespace yotta;
using bench::Json;
using bench::median;

struct Options : bench::AttentionOptions {
  std::vector<int> threads = {1, 2};
};

constexpr const char* script = R"(
import time, torch
state = {}
def measure(words):
    what, T, d, H, threads, clock = words.split()
    T, d, H = int(T), int(d), int(H)
    now = time.process_time if clock == 'cpu' else time.perf_counter
    torch.set_num_threads(int(threads))
    sdpa = torch.nn.functional.scaled_dot_product_attention
    if state.get('size') != (T, d, H):
        make = lambda: torch.randn(1, T, H, d).transpose(1, 2)
        state.update(size=(T, d, H), dout=make(),
                     qkv=[make().requires_grad_() for _ in range(3)])
    if what == 'forward':
        with torch.no_grad():
            sdpa(*state['qkv'], is_causal=True)
            start = now()
            sdpa(*state['qkv'], is_causal=True)
            return now() - start
    o = sdpa(*state['qkv'], is_causal=True)
    start = now()
    torch.autograd.grad(o, state['qkv'], state['dout'])
    return now() - start
)";

struct Times {
  std::vector<double> gflops, of_matmul, ratios;
};

// One number of threads: rounds of all five measurements.
std::vector<Json> measure(const Options& options, int threads, bench::TorchPeer& torch) {
  context().threads = threads;
  const Tensor q = bench::attention_input(options, "q"), k = bench::attention_input(options, "k"),
               v = bench::attention_input(options, "v"),
               dout = bench::attention_input(options, "dout");
  const int64_t side = options.quick ? 256 : 1024;
  const std::vector<float> a(static_cast<size_t>(side * side), 0.5f);
  std::vector<float> c(a.size());
  const double half =
      static_cast<double>(options.heads * options.tokens * options.tokens * options.d);
  Times times[2];
  for (int round = 0; round <= options.rounds; ++round) {  // the first warms up
    const double matmul_rate =
        matmul_flops(side, side, side) / bench::seconds_of(options.cpu_time, [&] {
          const auto in = row_major(a.data(), side, side);
          matmul(in, in, row_major(c.data(), side, side), Into::overwrite, threads);
        });
    FlashAttention out;
    const double ours[] = {
        bench::seconds_of(options.cpu_time, [&] { out = flash_attention(q, k, v); }),
        bench::seconds_of(options.cpu_time, [&] { flash_attention_backward(dout, q, k, v, out); })};
    for (int pass = 0; pass < 2; ++pass) {
      const double theirs =
          !torch.found()
              ? 0
              : torch.seconds(fmt::format("{} {} {} {} {} {}", pass == 0 ? "forward" : "backward",
                                          options.tokens, options.d, options.heads, threads,
                                          options.cpu_time ? "cpu" : "wall"));
      if (round == 0) continue;
      const double rate = (pass == 0 ? 2 : 5) * half / ours[pass];
      times[pass].gflops.push_back(rate * 1e-9);
      times[pass].of_matmul.push_back(rate / matmul_rate);
      times[pass].ratios.push_back(theirs / ours[pass]);
    }
  }
  std::vector<Json> rows;
  for (int pass = 0; pass < 2; ++pass)
    rows.push_back({{"pass", pass == 0 ? "forward" : "backward"},
                    {"threads", threads},
                    {"gflops", median(times[pass].gflops)},
                    {"of_matmul", median(times[pass].of_matmul)},
                    {"ratio", torch.found() ? Json(median(times[pass].ratios)) : Json()}});
  return rows;
}

int run(const Options& options) {
  bench::TorchPeer torch(script);
  fmt::print("{}; {} tokens, {} heads of {}, causal, f32, {}\n", torch.about(), options.tokens,
             options.heads, options.d, options.cpu_time ? "processor time" : "time");
  console::Table table({"pass", "threads", "GFLOP/s", "of matmul", "ratio to PyTorch"});
  Json report = {{"benchmark", "attention"}, {"torch", torch.about()}, {"rows", Json::array()}};
  for (const int threads : options.threads)
    for (const Json& row : measure(options, threads, torch)) {
      report["rows"].push_back(row);
      table.row({row["pass"].get<std::string>(), row["threads"].dump(),
                 fmt::format("{:.1f}", row["gflops"].get<double>()),
                 fmt::format("{:.2f}", row["of_matmul"].get<double>()),
                 row["ratio"].is_null() ? "-" : fmt::format("{:.2f}", row["ratio"].get<double>())});
    }
  fmt::print("{}", table.text());
  return options.json.empty() ? 0 : bench::write_json(options.json, report);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Flash attention against matmul and PyTorch's scaled_dot_product_attention"};
  Options options;
  bench::add_attention_options(app, options);
  app.add_option("--threads", options.threads, "numbers of threads to measure")
      ->check(CLI::Range(1, 1024));
  return bench::run_benchmark(app, argc, argv, [&] {
    make_quick(options);
    return run(options);
  });
}
