// A transformer on several ranks: who holds which tokens between the layers, what is kept and sent.
#include <map>

#include "course/book/figures/recorded/record.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/parallel/sequence_parallel.hpp"

namespace book {
namespace {

using yotta::Tensor;

constexpr int words = 16;
const std::vector<std::string> ways = {"tensor parallelism alone", "tokens shared, gathered kept",
                                       "tokens shared, gathered dropped"};

struct Run {
  double loss = 0, kept = 0, forward = 0, backward = 0, again = 0;
  std::vector<double> held;  // tokens between the layers, by rank
};

Tensor some_ids(int64_t T, int64_t ahead) {
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < T; ++t) ids.push_back(static_cast<int32_t>((t + ahead) * 7 % words));
  return Tensor::from<int32_t>(ids, {1, T});
}

Run run(int ranks, int64_t T, int way) {
  Run made;
  made.held.resize(static_cast<size_t>(ranks));
  const bool shares = way > 0 && ranks > 1;
  const auto reports = yotta::run_ranks(ranks, [&](yotta::Communicator& tp) {
    yotta::Transformer model(yotta::gpt2_config(1, 32, 8, T, words));
    yotta::tensor_parallel(model, tp);
    if (shares) yotta::sequence_parallel(model, tp, T, way == 1);
    yotta::Saved saved;
    Tensor logits = yotta::forward(model.stack(), some_ids(T, 0), saved), dlogits;
    const double kept = static_cast<double>(saved.bytes());
    const double loss = yotta::vocab_parallel_loss(words, tp)(
        logits, some_ids(T, 1), 1.0 / static_cast<double>(T), &dlogits);
    yotta::backward(model.stack(), dlogits, saved);
    const int64_t held = shares ? yotta::tokens_held(T, tp) : T;
    made.held[static_cast<size_t>(tp.rank())] = static_cast<double>(held);
    if (tp.rank() == 0) made.loss = loss, made.kept = kept;
  });
  const auto sent = [&](const char* label) {
    return static_cast<double>(reports[0].ledger().traffic(label).bytes_sent);
  };
  made.forward = sent(shares ? "sp.forward" : "tp.forward");
  made.backward = sent(shares ? "sp.backward" : "tp.backward");
  made.again = sent("sp.again");
  return made;
}

// All ways: the settings that differ in the way alone show the same three runs.
const std::vector<Run>& runs(int ranks, int64_t T) {
  static std::map<std::pair<int, int64_t>, std::vector<Run>> known;
  std::vector<Run>& all = known[{ranks, T}];
  for (int way = 0; all.size() < ways.size(); ++way) all.push_back(run(ranks, T, way));
  return all;
}

Data data(const std::vector<double>& at) {
  const int ranks = static_cast<int>(at[1]);
  const auto T = static_cast<int64_t>(at[2]);
  Data made;
  for (int way = 0; way < 3; ++way) {
    const Run& each = runs(ranks, T)[static_cast<size_t>(way)];
    made.rows.push_back({ways[static_cast<size_t>(way)],
                         {each.kept / 1e3, (each.forward + each.backward) / 1e3, each.again / 1e3},
                         {}});
    if (way != static_cast<int>(at[0])) continue;
    made.rows.push_back({"held", each.held, {}});
    made.numbers = {{"the loss", "", each.loss, 6},
                    {"rank 0 keeps for backward", "kB", each.kept / 1e3, 4},
                    {"it sends forward", "kB", each.forward / 1e3},
                    {"it sends backward", "kB", each.backward / 1e3},
                    {"and once more", "kB", each.again / 1e3}};
  }
  made.rows.push_back({"sizes", {at[2], at[1], at[0]}, {}});
  made.code = fmt::format(
      "yotta::tensor_parallel(model, tp);\n{}"
      "const yotta::Tensor logits = yotta::forward(model.stack(), ids, saved);\n"
      "fmt::print(\"{{}} bytes\\n\", saved.bytes());",
      at[0] > 0 ? fmt::format("yotta::sequence_parallel(model, tp, {}, {});\n", T, at[0] == 1)
                : "");
  return made;
}

}  // namespace

Figure tokens_figure() {
  return {"21_tokens",
          "Norms and dropout need no other token, so ranks can share the tokens out. What does "
          "that save, and what does it send? A transformer of one layer, run when this page was "
          "made.",
          {choice("way", ways, 1),
           {"tp, ranks", "", {1, 2, 4, 8}, 2},
           {"T, tokens", "", {8, 13, 16, 24, 32}, 2}},
          data};
}

}  // namespace book
