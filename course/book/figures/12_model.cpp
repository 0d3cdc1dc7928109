#include "course/book/figures/figure.hpp"
#include "yotta/nn/transformer_config.hpp"

namespace book {
namespace {

const std::vector<std::string> models = {"GPT-2 124M", "Llama 3 8B", "Llama 3 70B", "Llama 3 405B"};

yotta::TransformerConfig model_of(double at) {
  const yotta::TransformerConfig all[] = {yotta::gpt2_124m(), yotta::llama3_8b(),
                                          yotta::llama3_70b(), yotta::llama3_405b()};
  return all[static_cast<size_t>(at)];
}

// FLOPs of a token in a step, forward and backward: all, and what scores add to the weights.
struct TokenFlops {
  double all, scores;
};
TokenFlops flops_of(const yotta::TransformerConfig& c, double tokens) {
  const auto T = static_cast<int64_t>(tokens);
  const double all = yotta::step_flops(c, 1, T) / tokens;
  return {all, all - 6 * static_cast<double>(yotta::active_parameters(c))};
}

Data data(const std::vector<double>& at) {
  const yotta::TransformerConfig c = model_of(at[0]);
  const double N = static_cast<double>(yotta::parameters(c)), L = static_cast<double>(c.layers);
  const double attention = L * static_cast<double>(yotta::attention_parameters(c));
  const double feed_forward = L * static_cast<double>(yotta::feed_forward_parameters(c));
  const TokenFlops flops = flops_of(c, at[1]);
  Data made;
  made.numbers = {{"N, parameters", "billion", N / 1e9},
                  {"in feed-forward layers", "%", 100 * feed_forward / N},
                  {"in attention's matrices", "%", 100 * attention / N},
                  {"FLOPs of a token", "GFLOP", flops.all / 1e9},
                  {"of them scores", "%", 100 * flops.scores / flops.all},
                  {"a step of one sequence", "TFLOP", flops.all * at[1] / 1e12}};
  const Row by_tokens = curve("GFLOP of a token", multiplied(512, 1 << 20, 2), [&](double T) {
    const TokenFlops each = flops_of(c, T);
    return std::vector{each.all / 1e9, (each.all - each.scores) / 1e9};
  });
  made.rows = {{"parameters",
                {attention, feed_forward, N - attention - feed_forward},
                {models[static_cast<size_t>(at[0])]}},
               {"chosen", {at[1], flops.all / 1e9}, {}},
               by_tokens};
  const char* const names[] = {"gpt2_124m", "llama3_8b", "llama3_70b", "llama3_405b"};
  made.code = fmt::format(
      "const yotta::TransformerConfig config = yotta::{}();\n"
      "fmt::print(\"{{}} parameters\\n\", yotta::parameters(config));\n"
      "fmt::print(\"{{}} FLOPs\\n\", yotta::step_flops(config, 1, {:.0f}));",
      names[static_cast<size_t>(at[0])], at[1]);
  return made;
}

}  // namespace

Figure model_figure() {
  return {
      "12_model",
      "6 FLOPs for each parameter and token is the usual estimate. Up to which length of a "
      "sequence is it good, and where do the parameters lie?",
      {choice("model", models, 1), {"T, tokens of a sequence", "", multiplied(512, 1 << 20, 2), 4}},
      data};
}

}  // namespace book
