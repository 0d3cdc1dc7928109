// Text written token by token, with a cache of keys and values, beside PyTorch's and llama.cpp's.
//
// All begin with the same weights, which travel in a file, and write greedily from the same
// prompt. Before anything is timed all run through the same tokens, and the largest logits of the
// last one are compared. A round is the same number of tokens on each side, one after the other;
// the ratio is a peer's time over ours, the median over the rounds, with the smallest and the
// largest. The prompt runs as one pass and is not timed. PyTorch has caches of full length that it
// writes into, scaled_dot_product_attention, and inference_mode; in bf16 its weights are bf16, as
// are ours. llama.cpp runs GPT-2's dialect (llama_cpp.hpp).
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../course/options/console.hpp"
#include "bench.hpp"
#include "llama_cpp.hpp"
#include "torch_model.hpp"
#include "yotta/core/context.hpp"
#include "yotta/nn/flash_decoding.hpp"

namespace {

using namespace yotta;
using bench::Json;
using bench::median;
using bench::Size;

struct Options {
  std::vector<std::string> sizes = {"6x384"}, dtypes = {"f32"};
  std::string json;
  int threads = 2, pairs = 10;
  int64_t prompt = 64, tokens = 64;
  bool quick = false;
};

constexpr const char* script = R"(
def load(path, layers, d, heads, context, threads, dtype):
    torch.set_num_threads(threads)
    of = torch.bfloat16 if dtype == 'bf16' else torch.float32
    p = {name: w.to(of) for name, w in tensors(path).items()}
    caches = [[torch.zeros(1, heads, context, d, dtype=of) for _ in 'kv'] for _ in range(layers)]
    state.update(p=p, layers=layers, d=d, caches=caches)
    return 0
def logits(ids, first):
    p = state['p']
    x = hidden(p, state['layers'], state['d'], ids, state['caches'], first)
    return F.linear(x[:, -1], table(p))
def text(length): return (torch.arange(length) * 7919 % table(state['p']).shape[0])[None]
@torch.inference_mode()
def forced(prompt, tokens):
    ids = text(prompt + tokens)
    last = logits(ids[:, :prompt], 0)
    for t in range(prompt, prompt + tokens): last = logits(ids[:, t:t + 1], t)
    return last.float().max().item()
@torch.inference_mode()
def write(prompt, tokens):
    last = logits(text(prompt), 0)
    start = time.perf_counter()
    for t in range(prompt, prompt + tokens): last = logits(last.argmax(1, keepdim=True), t)
    return time.perf_counter() - start
def measure(words):
    what, *rest = words.split('\t')
    if what == 'load': return load(rest[0], *(int(n) for n in rest[1:6]), rest[6])
    if what == 'llama_load': return llama_load(*(int(n) for n in rest[:4]), rest[4])
    return globals()[what](int(rest[0]), int(rest[1]))
)";

// Attention of one sequence that is written: keys and values stay.
class CachedCore : public AttentionCore {
 public:
  CachedCore(const TransformerConfig& c, int threads)
      : cache_{Tensor::empty({1, c.context, c.kv_heads, c.head_size()}, c.dtype),
               Tensor::empty({1, c.context, c.kv_heads, c.head_size()}, c.dtype), 0},
        threads_(threads) {}

  void forget() { cache_.length = 0; }
  // The prompt, n tokens at once; afterwards one at a time.
  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, Saved&) override {
    const int64_t n = q.dim(1), first = cache_.length;
    append(cache_.k, k, first), append(cache_.v, v, first);
    cache_.length += n;
    if (first == 0) return flash_attention(q, k, v).o;
    const Shape shape = q.shape();
    return flash_decode(q.reshape({1, shape[2], shape[3]}), cache_, parts()).reshape(shape);
  }
  AttentionGradients backward(const Tensor&, Saved&) override {
    fail(Where::current(), "text that is written has no backward pass");
  }

 private:
  static void append(Tensor& cache, const Tensor& of, int64_t first) {
    Tensor rows = cache.reshape({cache.dim(1), -1}).rows(first, first + of.dim(1));
    rows.copy_from(of.reshape(rows.shape()));
  }
  // Parts of 128 keys are worth a thread.
  int64_t parts() const { return std::clamp<int64_t>(cache_.length / 128, 1, threads_); }

  KeyValueCache cache_;
  int64_t threads_;
};

class Ours {
 public:
  Ours(const Size& size, int threads) : model_(size.config) {
    for (Block* const block : model_.blocks()) {
      auto core = std::make_unique<CachedCore>(size.config, threads);
      cores_.push_back(core.get());
      block->attention.core = std::move(core);
    }
  }
  const Transformer& model() const { return model_; }

  // The largest logit after a text of the script's formula.
  double forced(int64_t prompt, int64_t tokens) {
    const std::vector<int32_t> ids = text(prompt + tokens);
    begin();
    Tensor last = logits({ids.begin(), ids.begin() + prompt}, 0);
    for (int64_t t = prompt; t < prompt + tokens; ++t) last = logits({ids[t]}, t);
    const std::vector<double> values = last.values();
    return *std::max_element(values.begin(), values.end());
  }
  // Seconds for `tokens` tokens after the prompt.
  double write(int64_t prompt, int64_t tokens) {
    begin();
    Tensor last = logits(text(prompt), 0);
    const double start = seconds_now();
    for (int64_t t = prompt; t < prompt + tokens; ++t) last = logits({likeliest(last)}, t);
    return seconds_now() - start;
  }

 private:
  void begin() {
    for (CachedCore* const each : cores_) each->forget();
  }
  std::vector<int32_t> text(int64_t length) const {
    std::vector<int32_t> ids;
    for (int64_t t = 0; t < length; ++t)
      ids.push_back(static_cast<int32_t>(t * 7919 % model_.config().vocabulary));
    return ids;
  }
  // Of the last of these tokens (1, V); the first of them is at `first`.
  Tensor logits(const std::vector<int32_t>& ids, int64_t first) {
    const int64_t n = std::ssize(ids);
    Saved saved(BatchPosition{.positions = first});
    const Tensor all = forward(model_.stack(), Tensor::from<int32_t>(ids, {1, n}), saved);
    return as_rows(all).rows(n - 1, n);
  }
  static int32_t likeliest(const Tensor& logits) {
    const Tensor wide = as_type(logits, DType::f32);
    const std::span<const float> values = wide.span<float>();
    return static_cast<int32_t>(std::max_element(values.begin(), values.end()) - values.begin());
  }

  Transformer model_;
  std::vector<CachedCore*> cores_;
};

// Who is asked for forced() and write(), by the beginning of their names in the script.
struct Peer {
  const char *name, *prefix;
};

// The peers that run this model. Prints why llama.cpp does not, if it does not.
std::vector<Peer> load_peers(bench::TorchPeer& torch, const Size& size, const Ours& ours,
                             int threads) {
  if (!torch.found()) return {};
  const TransformerConfig& c = size.config;
  bench::load(torch, ours.model(),
              fmt::format("{}\t{}\t{}\t{}", c.kv_heads, c.context, threads, name(c.dtype)));
  std::vector<Peer> peers = {{"PyTorch", ""}};
  try {
    torch.seconds(fmt::format("llama_load\t{}\t{}\t{}\t{}\t{}", c.layers, c.heads, c.context,
                              threads, name(c.dtype)));
    peers.push_back({"llama.cpp", "llama_"});
  } catch (const Error& error) {
    const std::string text = error.what(), reason = "error: ";
    const size_t at = text.find(reason);
    if (at == std::string::npos) throw;  // the peer has ended
    fmt::print("{}, {}: llama.cpp is left out: {}\n", size.name, name(c.dtype),
               text.substr(at + reason.size()));
  }
  return peers;
}

// The relative difference of the largest logits. Errors: it is too large.
double compare_logits(double mine, double theirs, const Peer& peer, DType dtype) {
  const double difference = std::abs(mine - theirs) / std::abs(theirs);
  if (!(difference <= (dtype == DType::f32 ? 1e-3 : 5e-2)))
    fail(Where::current(), "the largest logit is {} here, and {} in {}", mine, theirs, peer.name);
  return difference;
}

Json measure(const Size& size, const Options& options, bench::TorchPeer& torch) {
  const TransformerConfig& c = size.config;
  const int64_t prompt = std::min(options.prompt, c.context / 2);
  const int64_t tokens = std::min(options.tokens, c.context - prompt);
  const std::string length = fmt::format("\t{}\t{}", prompt, tokens);
  Ours ours(size, options.threads);
  const std::vector<Peer> peers = load_peers(torch, size, ours, options.threads);
  Json row = {{"size", size.name},
              {"dtype", name(c.dtype)},
              {"prompt", prompt},
              {"tokens", tokens},
              {"peers", Json::object()}};
  const double mine = peers.empty() ? 0 : ours.forced(prompt, tokens);
  for (const Peer& peer : peers)
    row["peers"][peer.name]["logit_difference"] = compare_logits(
        mine, torch.seconds(std::string(peer.prefix) + "forced" + length), peer, c.dtype);
  ours.write(prompt, tokens);
  std::vector<double> seconds;
  for (int pair = 0; pair < options.pairs; ++pair) {
    seconds.push_back(ours.write(prompt, tokens));
    for (const Peer& peer : peers)
      row["peers"][peer.name]["ratios"].push_back(
          torch.seconds(std::string(peer.prefix) + "write" + length) / seconds.back());
  }
  row["tokens_per_second"] = static_cast<double>(tokens) / median(seconds);
  return row;
}

// A peer's time over ours.
std::string ratio_to(const Json& row, const char* peer) {
  return row["peers"].contains(peer) ? bench::ratio_text(row["peers"][peer]["ratios"]) : "-";
}

int run(const Options& options) {
  context().threads = options.threads;
  bench::TorchPeer torch(std::string(bench::torch_model) + bench::llama_cpp + script);
  fmt::print("{}; {} threads\n", torch.about(), options.threads);
  console::Table table(
      {"size", "dtype", "prompt", "tokens", "tokens/s", "PyTorch / ours", "llama.cpp / ours"});
  Json report = {{"benchmark", "generate"}, {"torch", torch.about()}, {"rows", Json::array()}};
  for (const std::string& dtype : options.dtypes)
    for (const Size& size :
         bench::sizes_named(options.sizes, dtype == "bf16" ? DType::bf16 : DType::f32)) {
      const Json row = measure(size, options, torch);
      report["rows"].push_back(row);
      table.row({size.name, dtype, std::to_string(row["prompt"].get<int64_t>()),
                 std::to_string(row["tokens"].get<int64_t>()),
                 fmt::format("{:.0f}", row["tokens_per_second"].get<double>()),
                 ratio_to(row, "PyTorch"), ratio_to(row, "llama.cpp")});
    }
  fmt::print("{}", table.text());
  return options.json.empty() ? 0 : bench::write_json(options.json, report);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Text written with a cache of keys and values, beside PyTorch's and llama.cpp's"};
  Options options;
  app.add_option("--size", options.sizes, "models to measure; all: but the tiny ones")
      ->check(CLI::IsMember(bench::size_names()));
  app.add_option("--dtype", options.dtypes, "f32, bf16, or both")
      ->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--threads", options.threads, "of each side")->check(CLI::Range(1, 1024));
  app.add_option("--pairs", options.pairs, "texts of each side")->check(CLI::Range(1, 1000));
  app.add_option("--prompt", options.prompt, "tokens of the prompt")->check(CLI::Range(1, 1 << 20));
  app.add_option("--tokens", options.tokens, "tokens to write")->check(CLI::Range(1, 1 << 20));
  app.add_option("--json", options.json, "also write the rows to this file");
  app.add_flag("--quick", options.quick, "tiny models and two pairs");
  return bench::run_benchmark(app, argc, argv, [&] {
    if (options.quick) options.sizes = {"tiny", "llama-tiny"}, options.pairs = 2;
    return run(options);
  });
}
