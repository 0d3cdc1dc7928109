// config.json: a model's sizes in the words of Hugging Face's transformers library.
//
//     ours            GPT-2 (GPT2LMHeadModel)                  Llama (LlamaForCausalLM)
//     width           n_embd                                   hidden_size
//     layers          n_layer                                  num_hidden_layers
//     heads           n_head                                   num_attention_heads
//     kv_heads        (as many as heads)                       num_key_value_heads
//     feed_forward    n_inner, null means 4 C                  intermediate_size
//     context         n_positions                              max_position_embeddings
//     norm_epsilon    layer_norm_epsilon                       rms_norm_eps
//     rope_theta                                               rope_parameters.rope_theta (since version
//                                                              5), rope_theta (before); we write both
//     dropout         embd_pdrop = resid_pdrop                 (none)
//     attention_dropout attn_pdrop                             attention_dropout
//
// Dropout is written for others and not read: it belongs to a run, not to a model.
// Contract: what our transformer cannot compute is refused by the name of its entry: another model or
// activation, biases in Llama, scaled rope, a head size other than C / H. What does not change the
// result is ignored. Sizes come back through TransformerConfig::check.
// Reference: https://huggingface.co/docs/transformers, GPT2Config and LlamaConfig.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "yotta/model/config.hpp"

namespace yotta {

// PyTorch's name of a type, as config.json has it.
constexpr const char* torch_name(DType dtype) {
  return dtype == DType::f64 ? "float64" : dtype == DType::bf16 ? "bfloat16" : "float32";
}

// ---- writing ---------------------------------------------------------------------------------------

namespace detail {
inline nlohmann::json gpt2_entries(const TransformerConfig& c) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"n_embd", c.width},
          {"n_layer", c.layers},
          {"n_head", c.heads},
          {"n_inner", c.feed_forward},
          {"n_positions", c.context},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", c.norm_epsilon},
          {"embd_pdrop", c.dropout},
          {"resid_pdrop", c.dropout},
          {"attn_pdrop", c.attention_dropout}};
}

inline nlohmann::json llama_entries(const TransformerConfig& c) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", c.width},
          {"num_hidden_layers", c.layers},
          {"num_attention_heads", c.heads},
          {"num_key_value_heads", c.kv_heads},
          {"head_dim", c.head_size()},
          {"intermediate_size", c.feed_forward},
          {"max_position_embeddings", c.context},
          {"hidden_act", "silu"},
          {"rms_norm_eps", c.norm_epsilon},
          {"rope_theta", c.rope_theta},
          {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", c.rope_theta}}},
          {"attention_dropout", c.attention_dropout},
          {"attention_bias", false},
          {"mlp_bias", false}};
}
}  // namespace detail

// The text of config.json. Byte tokens need no tokenizer and have no token that begins or ends a text.
inline std::string hugging_face_config(const TransformerConfig& config) {
  nlohmann::json entries = config.dialect == Dialect::gpt2 ? detail::gpt2_entries(config)
                                                           : detail::llama_entries(config);
  entries["vocab_size"] = config.vocabulary;
  entries["tie_word_embeddings"] = config.tied;
  entries["initializer_range"] = config.deviation;
  entries["torch_dtype"] = torch_name(config.dtype);
  entries["bos_token_id"] = nullptr;
  entries["eos_token_id"] = nullptr;
  return entries.dump(2) + "\n";
}

// ---- reading ---------------------------------------------------------------------------------------

namespace detail {
// The entries of a config.json, each of the type that is asked for; null counts as absent.
class ConfigEntries {
 public:
  ConfigEntries(const std::string& text, std::string source, Where where)
      : source_(std::move(source)), where_(where) {
    entries_ = nlohmann::json::parse(text, nullptr, false);
    if (!entries_.is_object()) fail(where, "{} is no JSON object", source_);
  }

  bool has(const char* key) const { return entries_.contains(key) && !entries_.at(key).is_null(); }

  int64_t size(const char* key) const {
    const nlohmann::json& value = at(key);
    constexpr int64_t most = int64_t{1} << 31;  // products of two of them fit
    if (!value.is_number_integer() || value.get<double>() < 0 ||
        value.get<double>() > static_cast<double>(most))
      fail(where_, "{}: {} is {}, expected a size", source_, key, value.dump());
    return value.get<int64_t>();
  }
  int64_t size(const char* key, int64_t absent) const { return has(key) ? size(key) : absent; }

  double number(const char* key, double absent) const {
    if (!has(key)) return absent;
    if (!at(key).is_number())
      fail(where_, "{}: {} is {}, expected a number", source_, key, at(key).dump());
    return at(key).get<double>();
  }
  bool flag(const char* key, bool absent) const {
    if (!has(key)) return absent;
    if (!at(key).is_boolean())
      fail(where_, "{}: {} is {}, expected true or false", source_, key, at(key).dump());
    return at(key).get<bool>();
  }
  std::string word(const char* key, const char* absent) const {
    if (!has(key)) return absent;
    if (!at(key).is_string())
      fail(where_, "{}: {} is {}, expected a word", source_, key, at(key).dump());
    return at(key).get<std::string>();
  }
  // The object under a key; an empty one if absent.
  ConfigEntries object(const char* key) const {
    return {has(key) ? at(key).dump() : "{}", source_ + ": " + key, where_};
  }

  [[noreturn]] void refuse(const std::string& what) const {
    fail(where_, "{}: {}; this transformer cannot compute that", source_, what);
  }
  void expect_flag(const char* key, bool expected) const {
    if (flag(key, expected) != expected) refuse(fmt::format("{} is {}", key, !expected));
  }

 private:
  const nlohmann::json& at(const char* key) const {
    if (!entries_.contains(key)) fail(where_, "{} has no entry {}", source_, key);
    return entries_.at(key);
  }

  nlohmann::json entries_;
  std::string source_;
  Where where_;
};

inline TransformerConfig read_gpt2(const ConfigEntries& entries) {
  const std::string activation = entries.word("activation_function", "gelu_new");
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh")
    entries.refuse("the activation is " + activation + ", not gelu_new");
  entries.expect_flag("scale_attn_weights", true);
  entries.expect_flag("scale_attn_by_inverse_layer_idx", false);
  entries.expect_flag("add_cross_attention", false);
  const int64_t width = entries.size("n_embd");
  TransformerConfig config = gpt2_config(entries.size("n_layer"), width, entries.size("n_head"),
                                         entries.size("n_positions"), entries.size("vocab_size"));
  config.feed_forward = entries.size("n_inner", 4 * width);
  config.tied = entries.flag("tie_word_embeddings", true);
  config.norm_epsilon = entries.number("layer_norm_epsilon", 1e-5);
  return config;
}

// The base of the rotation angles, as version 5 or the ones before it write it.
inline double read_rope_theta(const ConfigEntries& entries) {
  const double theta = entries.number("rope_theta", 10000);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const ConfigEntries rope = entries.object(key);
    const std::string type = rope.word("rope_type", "default");
    if (type != "default" || rope.has("type") || rope.number("partial_rotary_factor", 1) != 1)
      entries.refuse(fmt::format("{} asks for a changed rope ({})", key, type));
  }
  return entries.object("rope_parameters").number("rope_theta", theta);
}

inline TransformerConfig read_llama(const ConfigEntries& entries) {
  if (const std::string act = entries.word("hidden_act", "silu"); act != "silu")
    entries.refuse("the activation is " + act + ", not silu");
  entries.expect_flag("attention_bias", false);
  entries.expect_flag("mlp_bias", false);
  const int64_t width = entries.size("hidden_size"), heads = entries.size("num_attention_heads");
  TransformerConfig config =
      llama_config(entries.size("num_hidden_layers"), width, entries.size("intermediate_size"),
                   heads, entries.size("num_key_value_heads", heads),
                   entries.size("max_position_embeddings"), entries.size("vocab_size"));
  if (const int64_t head = entries.size("head_dim", -1); head >= 0 && head * heads != width)
    entries.refuse(fmt::format("{} heads of size {} in a width of {}", heads, head, width));
  config.tied = entries.flag("tie_word_embeddings", false);
  config.norm_epsilon = entries.number("rms_norm_eps", 1e-6);
  config.rope_theta = read_rope_theta(entries);
  return config;
}
}  // namespace detail

// The sizes that the text of a config.json describes; `source` names it in errors. Weights stored in
// 16 bits with 5 of exponent (float16) are held in f32.
inline TransformerConfig parse_hugging_face_config(const std::string& text,
                                                   const std::string& source,
                                                   Where where = Where::current()) {
  const detail::ConfigEntries entries(text, source, where);
  const std::string type = entries.word("model_type", "(absent)");
  if (type != "gpt2" && type != "llama")
    entries.refuse("model_type is " + type + ", not gpt2 or llama");
  TransformerConfig config =
      type == "gpt2" ? detail::read_gpt2(entries) : detail::read_llama(entries);
  config.deviation = entries.number("initializer_range", 0.02);
  const std::string dtype = entries.word("dtype", "float32");
  const std::string stored = entries.word("torch_dtype", dtype.c_str());
  config.dtype = stored == "float64" ? DType::f64 : stored == "bfloat16" ? DType::bf16 : DType::f32;
  config.check(where);
  return config;
}

}  // namespace yotta
