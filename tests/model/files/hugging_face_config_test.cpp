#include "yotta/model/files/hugging_face_config.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

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
  for (const TransformerConfig& config : {gpt2, llama, gpt2_124m(), llama3_405b()}) {
    const TransformerConfig read = parse(hugging_face_config(config));
    CHECK(read.dialect == config.dialect);
    CHECK(read.layers == config.layers);
    CHECK(read.width == config.width);
    CHECK(read.heads == config.heads);
    CHECK(read.kv_heads == config.kv_heads);
    CHECK(read.feed_forward == config.feed_forward);
    CHECK(read.vocabulary == config.vocabulary);
    CHECK(read.context == config.context);
    CHECK(read.tied == config.tied);
    CHECK(read.dropout == 0);  // of a run, not of a model
    CHECK(read.norm_epsilon == config.norm_epsilon);
    CHECK(read.rope_theta == config.rope_theta);
    CHECK(read.deviation == config.deviation);
    CHECK(read.dtype == config.dtype);
  }
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
  CHECK(contains(changing(gpt2, "model_type", "\"bert\""), "model_type is bert"));
  CHECK(contains(without(gpt2, "model_type"), "model_type is (absent)"));
  CHECK(contains(changing(gpt2, "activation_function", "\"relu\""), "activation is relu"));
  CHECK(contains(changing(gpt2, "scale_attn_weights", "false"), "scale_attn_weights is false"));
  CHECK(contains(changing(gpt2, "scale_attn_by_inverse_layer_idx", "true"), "idx is true"));
  CHECK(contains(changing(gpt2, "add_cross_attention", "true"), "add_cross_attention is true"));
  CHECK(contains(changing(llama, "hidden_act", "\"gelu\""), "activation is gelu"));
  CHECK(contains(changing(llama, "attention_bias", "true"), "attention_bias is true"));
  CHECK(contains(changing(llama, "mlp_bias", "true"), "mlp_bias is true"));
  CHECK(contains(changing(llama, "head_dim", "4"), "4 heads of size 4 in a width of 8"));
  CHECK(contains(changing(llama, "rope_scaling", R"({"rope_type": "llama3"})"), "(llama3)"));
  CHECK(contains(changing(llama, "rope_scaling", R"({"type": "linear"})"), "changed rope"));
  CHECK(contains(changing(llama, "rope_parameters", R"({"rope_type": "yarn"})"), "(yarn)"));
}

TEST_CASE("entries that are missing or no sizes are named") {
  const TransformerConfig gpt2 = gpt2_config(1, 8, 2, 4, 10);
  CHECK(contains(without(gpt2, "n_embd"), "config.json has no entry n_embd"));
  CHECK(contains(changing(gpt2, "n_embd", "\"8\""), "n_embd is \"8\", expected a size"));
  CHECK(contains(changing(gpt2, "n_embd", "-8"), "n_embd is -8, expected a size"));
  CHECK(contains(changing(gpt2, "n_embd", "8.5"), "expected a size"));
  CHECK(contains(changing(gpt2, "n_embd", "1e30"), "expected a size"));
  CHECK(contains(changing(gpt2, "n_embd", "18446744073709551615"), "expected a size"));
  CHECK(contains(changing(gpt2, "n_embd", "null"), "expected a size"));
  CHECK(contains(changing(gpt2, "n_embd", "9"), "width 9 does not divide into 2 heads"));
  CHECK(contains(changing(gpt2, "layer_norm_epsilon", "\"x\""), "expected a number"));
  CHECK(contains(changing(gpt2, "tie_word_embeddings", "1"), "expected true or false"));
  CHECK(contains(changing(gpt2, "activation_function", "1"), "expected a word"));
  CHECK(contains(message_of([] { parse("{"); }), "config.json is no JSON object"));
  CHECK(contains(message_of([] { parse("[]"); }), "config.json is no JSON object"));
  CHECK(contains(message_of([] { parse(""); }), "hugging_face_config_test.cpp:"));
}
