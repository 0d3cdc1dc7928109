#include "yotta/model/files/hugging_face.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "support/message_of.hpp"
#include "yotta/core/files/json.hpp"
#include "yotta/core/system/files.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
TransformerConfig parse(const std::string& text) {
  return parse_hugging_face_config(text, "config.json");
}
// The message after one entry of a good config.json was changed; value is JSON.
std::string changing(const TransformerConfig& config, const char* key, const char* value) {
  nlohmann::json json = nlohmann::json::parse(hugging_face_config(config));
  json[key] = nlohmann::json::parse(value);
  return message_of([&] { parse(json.dump()); });
}
// Another value of an entry, and the words that refuse it.
struct Change {
  const char *key, *value, *words;
};
void check_changes(const TransformerConfig& config, const std::vector<Change>& changes) {
  for (const Change& each : changes)
    CHECK(contains(changing(config, each.key, each.value), each.words));
}
std::string without(const TransformerConfig& config, const char* key) {
  nlohmann::json json = nlohmann::json::parse(hugging_face_config(config));
  json.erase(key);
  return message_of([&] { parse(json.dump()); });
}
}  // namespace

TEST_CASE("a configuration comes back from its config.json") {
  TransformerConfig gpt2 = gpt2_config(3, 48, 4, 32, 256);
  gpt2.feed_forward = 100;
  gpt2.tied = false;
  gpt2.dropout = 0.25;
  gpt2.norm_epsilon = 1e-6;
  gpt2.deviation = 0.03;
  gpt2.dtype = DType::f64;
  TransformerConfig llama = llama_config(2, 64, 96, 8, 2, 128, 300);
  llama.rope_theta = 500000;
  llama.tied = true;
  llama.dtype = DType::bf16;
  TransformerConfig scaled = llama;
  scaled.rope_scaling = {8, 1, 4, 8192};
  TransformerConfig masked = llama;
  masked.attention = AttentionKind::flex;
  masked.mask = {.window = 30, .alibi = true};
  for (const TransformerConfig& config :
       {gpt2, llama, scaled, masked, gpt2_124m(), llama3_405b()}) {
    const TransformerConfig read = parse(hugging_face_config(config));
    TransformerConfig of_model = config;  // without what is a run's
    of_model.dropout = 0;
    CHECK(read == of_model);
  }
  masked.mask.document = true;  // of a run, not of a model
  CHECK_FALSE(parse(hugging_face_config(masked)).mask.document);
  const std::string came_in = hugging_face_config(masked);
  masked.mask = {};
  CHECK_FALSE(contains(hugging_face_config(masked, came_in), "yotta_mask"));
  CHECK(contains(changing(llama, "yotta_mask", "4"), "yotta_mask is not a JSON object"));
}

TEST_CASE("what is absent or null has the library's default") {
  const TransformerConfig gpt2 = parse(
      R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 4,
          "vocab_size": 10, "n_inner": null})");
  CHECK(gpt2.feed_forward == 32);
  CHECK(gpt2.tied);
  CHECK(gpt2.norm_epsilon == 1e-5);
  CHECK(gpt2.dtype == DType::f32);
  const TransformerConfig llama = parse(
      R"({"model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1,
          "num_attention_heads": 4, "max_position_embeddings": 4, "vocab_size": 10,
          "rope_scaling": null, "dtype": "bfloat16"})");
  CHECK(llama.kv_heads == 4);
  CHECK_FALSE(llama.tied);
  CHECK(llama.norm_epsilon == 1e-6);
  CHECK(llama.rope_theta == 10000);
  CHECK(llama.dtype == DType::bf16);
}

TEST_CASE("rope's base is read where version 4 and version 5 write it") {
  const TransformerConfig llama = llama_config(1, 8, 12, 4, 2, 4, 10);
  nlohmann::json json = nlohmann::json::parse(hugging_face_config(llama));
  json.erase("rope_parameters");
  json["rope_theta"] = 1234;
  CHECK(parse(json.dump()).rope_theta == 1234);
  json.erase("rope_theta");
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 77}};
  CHECK(parse(json.dump()).rope_theta == 77);
}

TEST_CASE("what the transformer cannot compute is refused by name") {
  const TransformerConfig gpt2 = gpt2_config(1, 8, 2, 4, 10);
  const TransformerConfig llama = llama_config(1, 8, 12, 4, 2, 4, 10);
  CHECK(changing(gpt2, "vocab_size", "11") == "nothing was thrown");
  CHECK(contains(without(gpt2, "model_type"), "model_type is (absent)"));
  check_changes(gpt2, {{"model_type", "\"bert\"", "model_type is bert"},
                       {"activation_function", "\"relu\"", "activation is relu"},
                       {"scale_attn_weights", "false", "scale_attn_weights is false"},
                       {"scale_attn_by_inverse_layer_idx", "true", "idx is true"},
                       {"add_cross_attention", "true", "add_cross_attention is true"}});
  check_changes(llama, {{"hidden_act", "\"gelu\"", "activation is gelu"},
                        {"attention_bias", "true", "attention_bias is true"},
                        {"mlp_bias", "true", "mlp_bias is true"},
                        {"head_dim", "4", "4 heads of size 4 in a width of 8"},
                        {"rope_scaling", R"({"rope_type": "llama3"})", "(llama3)"},
                        {"rope_scaling", R"({"type": "linear"})", "changed rope"},
                        {"rope_parameters", R"({"rope_type": "yarn"})", "(yarn)"}});
}

TEST_CASE("entries that are missing or no sizes are named") {
  const TransformerConfig gpt2 = gpt2_config(1, 8, 2, 4, 10);
  CHECK(contains(without(gpt2, "n_embd"), "config.json has no entry n_embd"));
  check_changes(gpt2, {{"n_embd", "\"8\"", "n_embd is \"8\", expected a size"},
                       {"n_embd", "-8", "n_embd is -8, expected a size"},
                       {"n_embd", "8.5", "expected a size"},
                       {"n_embd", "1e30", "expected a size"},
                       {"n_embd", "18446744073709551615", "expected a size"},
                       {"n_embd", "null", "expected a size"},
                       {"n_embd", "9", "config.json: width 9 cannot be divided among 2 heads"},
                       {"n_head", "0", "config.json: every size of a transformer is at"},
                       {"layer_norm_epsilon", "\"x\"", "expected a number"},
                       {"tie_word_embeddings", "1", "expected true or false"},
                       {"activation_function", "1", "expected a word"}});
  for (const char* text : {"{", "[]"})
    CHECK(contains(message_of([&] { parse(text); }), "config.json is not a JSON object"));
  CHECK(contains(message_of([] { parse(""); }), "hugging_face_test.cpp:"));
}

namespace {
Tensor counting(Shape shape, float first) {
  Tensor made = Tensor::empty(std::move(shape));
  for (float& each : made.span<float>()) each = first++;
  return made;
}
}  // namespace

TEST_CASE("GPT-2's q, k and v become one matrix, transposed, and come back as they were") {
  const HuggingFaceTensor item{"c_attn.weight", {"q", "k", "v"}, true};
  const std::vector<Tensor> ours = {counting({2, 3}, 0), counting({2, 3}, 100),
                                    counting({2, 3}, 200)};
  CHECK(hugging_face_shape(item, ours) == Shape{3, 6});
  const Tensor theirs = to_hugging_face(item, ours);
  CHECK(theirs.shape() == Shape{3, 6});
  CHECK(theirs.item({0, 0}) == 0);    // q row 0, column 0
  CHECK(theirs.item({2, 1}) == 5);    // q row 1, column 2
  CHECK(theirs.item({1, 2}) == 101);  // k row 0, column 1
  CHECK(theirs.item({0, 5}) == 203);  // v row 1, column 0
  const std::vector<Tensor> back = from_hugging_face(item, theirs, ours);
  for (size_t i = 0; i < ours.size(); ++i) CHECK(back[i].values() == ours[i].values());
}

TEST_CASE("a tensor that is the same in both is not copied") {
  const std::vector<Tensor> ours = {counting({4}, 0)};
  CHECK(to_hugging_face({"ln_f.weight", {"norm.weight"}, false}, ours).shares_memory(ours[0]));
}

TEST_CASE("every parameter is in exactly one tensor, in both dialects, tied and untied") {
  for (const bool tied : {true, false}) {
    TransformerConfig gpt2 = gpt2_config(2, 8, 2, 4, 16);
    TransformerConfig llama = llama_config(2, 8, 24, 2, 1, 4, 16);
    gpt2.tied = llama.tied = tied;
    // embeddings, per layer, final norm, head: ours and theirs
    size_t ours = 0;
    for (const HuggingFaceTensor& item : hugging_face_tensors(gpt2)) ours += item.parts.size();
    CHECK(ours == 2 + 2 * 16 + 2 + (tied ? 0 : 1));
    CHECK(hugging_face_tensors(gpt2).size() == 2 + 2 * 12 + 2 + (tied ? 0u : 1u));
    CHECK(hugging_face_tensors(llama).size() == 1 + 2 * 9 + 1 + (tied ? 0u : 1u));
  }
  CHECK(is_buffer("h.0.attn.masked_bias"));
  CHECK_FALSE(is_buffer("h.0.attn.c_attn.bias"));
}

TEST_CASE("theirs are made of ours of the same meaning") {
  const auto parts_of = [](const TransformerConfig& config, const std::string& theirs) {
    for (const HuggingFaceTensor& item : hugging_face_tensors(config))
      if (item.name == theirs) return item.parts;
    return std::vector<std::string>{};
  };
  using Names = std::vector<std::string>;
  const TransformerConfig gpt2 = gpt2_config(2, 8, 2, 4, 16);
  const TransformerConfig llama = llama_config(2, 8, 24, 2, 1, 4, 16);
  CHECK(parts_of(gpt2, "transformer.h.1.attn.c_attn.bias") == Names{"layers.1.attention.q.bias",
                                                                    "layers.1.attention.k.bias",
                                                                    "layers.1.attention.v.bias"});
  for (const char* kind : {"gate", "up", "down"})
    CHECK(parts_of(llama, fmt::format("model.layers.1.mlp.{}_proj.weight", kind)) ==
          Names{fmt::format("layers.1.mlp.{}.weight", kind)});
}

TEST_CASE("a model with another parameter is refused by its name") {
  const TransformerConfig config = gpt2_config(1, 8, 2, 4, 16);
  std::vector<NamedTensor> weights;
  for (const HuggingFaceTensor& item : hugging_face_tensors(config))
    for (const std::string& part : item.parts) weights.push_back({part, Tensor::zeros({1})});
  expect_model_names(config, weights, Where::current());
  weights.back().name = "norm.bios";
  const std::string message =
      message_of([&] { expect_model_names(config, weights, Where::current()); });
  CHECK(contains(message, "norm.bi"));
  CHECK(contains(message, "the model in memory"));
}

TEST_CASE("a hostile config.json is refused by its name, in printable letters") {
  const auto parsing = [](const std::string& text) {
    const std::string message = message_of([&] { parse(text); });
    CHECK(contains(message, "config.json"));
    CHECK_FALSE(has_control_characters(message));
    return message;
  };
  CHECK(contains(parsing(std::string(200'000, '[')), "nested more than 64 deep"));
  CHECK(contains(parsing("{\"rope_scaling\":" + std::string(200'000, '[')), "64 deep"));
  CHECK(contains(parsing("{\"n_embd\": 1e400}"), "number overflow parsing '1e400'"));
  CHECK(contains(parsing("{\"model_type\": \"\xFF\x1B[2J\"}"), "ill-formed UTF-8"));
  CHECK(contains(parsing("{\"n_embd\": 1, \"n_embd\": 2}"), "the name 'n_embd' appears twice"));
  CHECK(contains(parsing("{\"model_type\": \"a\\u001b[2J\"}"), "a\\u001b[2J"));
  const TransformerConfig gpt2 = gpt2_config(1, 8, 2, 4, 10);
  const std::string brackets = std::string(60, '[') + std::string(60, ']');
  CHECK(contains(changing(gpt2, "n_embd", brackets.c_str()), "expected a size"));
  const std::string word = "\"" + std::string(100'000, 'x') + "\"";
  const std::string large = changing(gpt2, "n_embd", word.c_str());
  CHECK(contains(large, "expected a size"));
  CHECK(large.size() < 300);
}

namespace {
// Our own config.json with some entries replaced, read.
TransformerConfig with(const TransformerConfig& config, const char* changes) {
  nlohmann::json json = nlohmann::json::parse(hugging_face_config(config));
  json.merge_patch(nlohmann::json::parse(changes));  // null removes an entry
  return parse(json.dump());
}
}  // namespace

TEST_CASE("Llama 3.1's rope is read, as transformers 4 and 5 write it") {
  // The entries of meta-llama/Llama-3.1-8B's config.json.
  const TransformerConfig read = parse(R"({
    "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 128000, "eos_token_id": 128001, "hidden_act": "silu", "hidden_size": 4096,
    "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072,
    "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "transformers_version": "4.43.0.dev0", "use_cache": true, "vocab_size": 128256})");
  CHECK(read.rope_scaling == RopeScaling{8, 1, 4, 8192});
  CHECK(read.rope_theta == 500000);
  CHECK(read.context == 131072);
  CHECK(parameters(read) == parameters(llama3_8b()));
  const TransformerConfig llama = llama_config(1, 8, 24, 4, 2, 4, 10);
  const TransformerConfig five = with(llama, R"({"rope_theta": null, "rope_parameters": {
      "rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0,
      "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})");
  CHECK(five.rope_scaling == RopeScaling{32, 1, 4, 8192});
  CHECK(five.rope_theta == 500000);
  for (const char* none :
       {R"({"rope_scaling": {"type": "default"}})", R"({"rope_scaling": {"rope_type": "default"}})",
        R"({"rope_scaling": null, "rope_parameters": null})"})
    CHECK(with(llama, none).rope_scaling == RopeScaling{});
}

TEST_CASE("what is refused of a rope is named") {
  const TransformerConfig llama = llama_config(1, 8, 24, 4, 2, 4, 10);
  const auto changes = [&](const char* text) { return message_of([&] { with(llama, text); }); };
  for (const char* type : {"linear", "dynamic", "yarn", "longrope"})
    for (const char* key : {"type", "rope_type"})
      CHECK(contains(
          changes(
              fmt::format(R"({{"rope_scaling": {{"{}": "{}", "factor": 2}}}})", key, type).c_str()),
          fmt::format("rope_scaling asks for a changed rope ({})", type)));
  CHECK(contains(changes(R"({"partial_rotary_factor": 0.5})"), "partial_rotary_factor is 0.5"));
  CHECK(contains(changes(R"({"rope_parameters": {"partial_rotary_factor": 0.25}})"),
                 "rope_parameters: partial_rotary_factor is 0.25"));
  const auto llama3 = [&](const char* patch) {
    nlohmann::json rope{{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192}};
    rope.merge_patch(nlohmann::json::parse(patch));
    return changes(
        nlohmann::json{{"rope_scaling", rope}, {"rope_parameters", nullptr}}.dump().c_str());
  };
  CHECK(llama3("{}") == "nothing was thrown");
  for (const char* key :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    CHECK(contains(llama3(fmt::format("{{\"{}\": null}}", key).c_str()),
                   fmt::format("config.json: rope_scaling (llama3) has no entry {}", key)));
    for (const char* value : {"0", "-1", "1e300", "\"8\""})
      CHECK(contains(llama3(fmt::format("{{\"{}\": {}}}", key, value).c_str()),
                     fmt::format("config.json: rope_scaling (llama3): {} is ", key)));
  }
  CHECK(contains(llama3(R"({"high_freq_factor": 1.0})"), "high_freq_factor 1 must be above"));
  CHECK(contains(changes(R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0,
      "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})"),
                 "rope_scaling and rope_parameters differ"));
}

TEST_CASE("numbers of config.json that no model has are refused by their key") {
  const TransformerConfig gpt2 = gpt2_config(1, 8, 2, 4, 10);
  const TransformerConfig llama = llama_config(1, 8, 24, 4, 2, 4, 10);
  const auto check = [](const TransformerConfig& config, const char* key,
                        std::initializer_list<const char*> values) {
    for (const char* value : values) {
      const std::string message = message_of([&] {
        with(config, fmt::format(R"({{"{}": {}, "rope_parameters": null}})", key, value).c_str());
      });
      CAPTURE(message);
      CHECK(contains(message,
                     fmt::format("config.json: {} is {}, expected a number from", key, value)));
    }
  };
  check(gpt2, "layer_norm_epsilon", {"-1", "0", "2.0", "1e+300"});
  check(llama, "rms_norm_eps", {"-1", "0", "2.0", "1e+300"});
  check(llama, "rope_theta", {"0", "-5", "0.5", "1e+300"});
  check(llama, "initializer_range", {"-0.02", "1e+300"});
  CHECK(contains(changing(llama, "rope_parameters", R"({"rope_theta": -5})"),
                 "config.json: rope_parameters: rope_theta is -5, expected a number from"));
}

TEST_CASE("Mixtral's configuration comes back, and what we cannot compute is refused") {
  TransformerConfig config = llama_config(2, 64, 96, 8, 2, 128, 300);
  config.mixture.experts = 8, config.mixture.top_k = 3, config.mixture.balance_loss = 0.01;
  const nlohmann::json json = nlohmann::json::parse(hugging_face_config(config));
  CHECK(json.at("model_type") == "mixtral");
  CHECK(json.at("architectures") == nlohmann::json{"MixtralForCausalLM"});
  CHECK(json.at("router_aux_loss_coef") == 0.01);
  const TransformerConfig read = parse(json.dump());
  CHECK(read.mixture.experts == 8);
  CHECK(read.mixture.top_k == 3);
  CHECK(read.mixture.balance_loss == 0);  // of a run, not of a model
  CHECK(read.feed_forward == 96);
  CHECK(parse(hugging_face_config(llama_config(2, 64, 96, 8, 2, 128, 300))).mixture.experts == 0);
  nlohmann::json bare = json;
  for (const char* key : {"rope_theta", "rope_parameters", "rms_norm_eps"}) bare.erase(key);
  CHECK(parse(bare.dump()).rope_theta == 1e6);  // MixtralConfig's own
  CHECK(parse(bare.dump()).norm_epsilon == 1e-5);

  CHECK(contains(changing(config, "num_local_experts", "0"), "num_local_experts is 0"));
  CHECK(contains(changing(config, "num_local_experts", "2"), "a token of width 64 goes to 3 of 2"));
  CHECK(contains(changing(config, "num_experts_per_tok", "1"), "the weight of one expert 1"));
  CHECK(contains(changing(config, "sliding_window", "64"),
                 "a sliding_window of 64 in a context of 128"));
  CHECK(changing(config, "sliding_window", "4096") == "nothing was thrown");
  CHECK(contains(without(config, "num_experts_per_tok"), "has no entry num_experts_per_tok"));

  const auto said = [&](const std::function<void(TransformerConfig&)>& change) {
    TransformerConfig other = config;
    change(other);
    return message_of([&] { expect_hugging_face(other); });
  };
  CHECK(
      contains(said([](auto& c) { c.mixture.score = RouterScore::sigmoid; }), "a sigmoid router"));
  CHECK(contains(said([](auto& c) { c.mixture.groups = 2; }), "groups of experts"));
  CHECK(
      contains(said([](auto& c) { c.mixture.dense_layers = 1; }), "first blocks without experts"));
  CHECK(contains(said([](auto& c) { c.latent = {4, 4, 2, 2, 4}; }), "latent attention cannot be"));
  CHECK(contains(said([](auto& c) { c.mixture.bias_rate = 0.1; }), "a bias that chooses"));
  CHECK(contains(said([](auto& c) { c.mixture.shared = 1; }), "a shared expert"));
  CHECK(contains(said([](auto& c) { c.mixture.top_k = 1; }), "1 expert per token"));
  CHECK(contains(said([](auto& c) { c.dialect = Dialect::gpt2; }), "GPT-2's dialect"));
}

TEST_CASE("Mixtral's names") {
  TransformerConfig config = llama_config(1, 16, 20, 4, 2, 7, 11);
  config.mixture.experts = 2;
  std::vector<std::string> mixture;
  for (const HuggingFaceTensor& each : hugging_face_tensors(config))
    if (contains(each.name, "sparse")) mixture.push_back(each.name + " = " + each.parts.at(0));
  const std::string theirs = "model.layers.0.block_sparse_moe.", ours = "layers.0.mlp.";
  std::vector<std::string> expected = {theirs + "gate.weight = " + ours + "router.weight"};
  for (const std::string e : {"experts.0.", "experts.1."}) {
    expected.push_back(theirs + e + "w1.weight = " + ours + e + "gate.weight");
    expected.push_back(theirs + e + "w3.weight = " + ours + e + "up.weight");
    expected.push_back(theirs + e + "w2.weight = " + ours + e + "down.weight");
  }
  CHECK(mixture == expected);
}
