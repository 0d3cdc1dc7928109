// The bodies of model/files/hugging_face.hpp.
#pragma once

#include "yotta/model/files/hugging_face.hpp"

#include <algorithm>

#include "yotta/core/files/json.hpp"

namespace yotta {

// ---- names --------------------------------------------------------------------------------------

namespace detail {
inline void add_gpt2_layer(std::vector<HuggingFaceTensor>& to, const std::string& theirs,
                           const std::string& ours) {
  for (const char* kind : {".weight", ".bias"}) {
    const bool matrix = std::string(kind) == ".weight";
    const auto one = [&](const char* their_name, const char* our_name, bool transposed) {
      to.push_back({theirs + their_name + kind, {ours + our_name + kind}, transposed});
    };
    one("ln_1", "norm1", false);
    to.push_back(
        {theirs + "attn.c_attn" + kind,
         {ours + "attention.q" + kind, ours + "attention.k" + kind, ours + "attention.v" + kind},
         matrix});
    one("attn.c_proj", "attention.o", matrix);
    one("ln_2", "norm2", false);
    one("mlp.c_fc", "mlp.up", matrix);
    one("mlp.c_proj", "mlp.down", matrix);
  }
}

// `experts`: of the layer; 0: it has an MLP.
inline void add_llama_layer(std::vector<HuggingFaceTensor>& to, const std::string& theirs,
                            const std::string& ours, int64_t experts) {
  const auto one = [&](const std::string& their_name, const std::string& our_name) {
    to.push_back({theirs + their_name + ".weight", {ours + our_name + ".weight"}, false});
  };
  constexpr const char* pairs[][2] = {
      {"input_layernorm", "norm1"},        {"self_attn.q_proj", "attention.q"},
      {"self_attn.k_proj", "attention.k"}, {"self_attn.v_proj", "attention.v"},
      {"self_attn.o_proj", "attention.o"}, {"post_attention_layernorm", "norm2"}};
  for (const auto& [their_name, our_name] : pairs) one(their_name, our_name);
  if (experts == 0)
    for (const char* part : {"gate", "up", "down"})
      one(fmt::format("mlp.{}_proj", part), fmt::format("mlp.{}", part));
  else
    one("block_sparse_moe.gate", "mlp.router");
  for (int64_t e = 0; e < experts; ++e)
    for (const auto& [their_name, our_name] :
         {std::pair{"w1", "gate"}, std::pair{"w3", "up"}, std::pair{"w2", "down"}})
      one(fmt::format("block_sparse_moe.experts.{}.{}", e, their_name),
          fmt::format("mlp.experts.{}.{}", e, our_name));
}
}  // namespace detail

YOTTA_INLINE void expect_hugging_face(const TransformerConfig& config, Where where) {
  if (config.has_latent())
    fail(where,
         "latent attention cannot be kept in files: they have Llama's form, with q, k and v");
  const MixtureConfig& m = config.mixture;
  if (m.experts == 0) return;
  const char* const what = config.dialect != Dialect::llama  ? "GPT-2's dialect"
                           : m.score != RouterScore::softmax ? "a sigmoid router"
                           : m.bias_rate > 0                 ? "a bias that chooses"
                           : m.shared > 0                    ? "a shared expert"
                           : m.dense_layers > 0              ? "first blocks without experts"
                           : m.groups > 1                    ? "groups of experts"
                           : m.top_k == 1 ? "1 expert per token, weighed by its score"
                                          : nullptr;
  if (what != nullptr)
    fail(where,
         "a mixture with {} cannot be kept in files: they have Mixtral's form, which is Llama's "
         "dialect, a softmax router, and 2 or more experts per token whose weights sum to 1",
         what);
}

YOTTA_INLINE std::vector<HuggingFaceTensor> hugging_face_tensors(const TransformerConfig& config) {
  expect_hugging_face(config);
  const bool gpt2 = config.dialect == Dialect::gpt2;
  const std::string body = gpt2 ? "transformer." : "model.";
  std::vector<HuggingFaceTensor> all;
  all.push_back({body + (gpt2 ? "wte.weight" : "embed_tokens.weight"), {"embedding.token.weight"}});
  if (gpt2) all.push_back({body + "wpe.weight", {"embedding.position.weight"}});
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string number = std::to_string(i) + ".";
    if (gpt2)
      detail::add_gpt2_layer(all, body + "h." + number, "layers." + number);
    else
      detail::add_llama_layer(all, body + "layers." + number, "layers." + number,
                              config.mixture.experts);
  }
  all.push_back({body + (gpt2 ? "ln_f.weight" : "norm.weight"), {"norm.weight"}});
  if (gpt2) all.push_back({body + "ln_f.bias", {"norm.bias"}});
  if (!config.tied) all.push_back({hugging_face_head, {"head.weight"}});
  return all;
}

YOTTA_INLINE bool is_buffer(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with("rotary_emb.inv_freq");
}

YOTTA_INLINE void expect_model_names(const TransformerConfig& config,
                                     const std::vector<NamedTensor>& weights, Where where) {
  std::vector<std::string> expected, found;
  for (const HuggingFaceTensor& item : hugging_face_tensors(config))
    expected.insert(expected.end(), item.parts.begin(), item.parts.end());
  for (const NamedTensor& each : weights) found.push_back(each.name);
  expect_same_names("the model in memory", expected, found, where);
}

YOTTA_INLINE std::vector<Tensor> find_parts(const HuggingFaceTensor& item,
                                            const std::vector<NamedTensor>& weights) {
  std::vector<Tensor> parts;
  for (const std::string& part : item.parts)
    parts.push_back(std::find_if(weights.begin(), weights.end(), [&](const NamedTensor& each) {
                      return each.name == part;
                    })->value);
  return parts;
}

YOTTA_INLINE Shape hugging_face_shape(const HuggingFaceTensor& item,
                                      const std::vector<Tensor>& parts) {
  Shape shape = parts[0].shape();
  for (size_t i = 1; i < parts.size(); ++i) shape[0] += parts[i].dim(0);
  if (item.transposed) std::reverse(shape.begin(), shape.end());
  return shape;
}

namespace detail {
// b (n, m) = a (m, n) transposed, in a's type.
inline Tensor transposed_copy(const Tensor& a) {
  const int64_t rows = a.dim(0), columns = a.dim(1);
  Tensor b = Tensor::empty({columns, rows}, a.dtype());
  visit(a.dtype(), [&]<class T>(Type<T>) {
    const T* from = a.data<T>();
    T* to = b.data<T>();
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
  });
  return b;
}
}  // namespace detail

YOTTA_INLINE Tensor to_hugging_face(const HuggingFaceTensor& item,
                                    const std::vector<Tensor>& parts) {
  if (parts.size() == 1 && !item.transposed) return parts[0];
  Shape shape = hugging_face_shape(item, parts);
  if (item.transposed) std::reverse(shape.begin(), shape.end());
  const Tensor stacked = Tensor::empty(shape, parts[0].dtype());
  int64_t row = 0;
  for (const Tensor& part : parts) {
    stacked.rows(row, row + part.dim(0)).copy_from(part);
    row += part.dim(0);
  }
  return item.transposed ? detail::transposed_copy(stacked) : stacked;
}

YOTTA_INLINE std::vector<Tensor> from_hugging_face(const HuggingFaceTensor& item,
                                                   const Tensor& theirs,
                                                   const std::vector<Tensor>& parts) {
  const Tensor stacked = item.transposed ? detail::transposed_copy(theirs) : theirs;
  std::vector<Tensor> values;
  int64_t row = 0;
  for (const Tensor& part : parts) {
    values.push_back(stacked.rows(row, row + part.dim(0)));
    row += part.dim(0);
  }
  return values;
}

// ---- sizes: writing -----------------------------------------------------------------------------

namespace detail {
// PyTorch's name of a type, as config.json has it.
constexpr const char* torch_name(DType dtype) {
  return dtype == DType::f64 ? "float64" : dtype == DType::bf16 ? "bfloat16" : "float32";
}

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

// As rope_scaling was written before version 5; null if nothing is scaled.
inline nlohmann::json rope_scaling_entries(const RopeScaling& rope) {
  if (rope.factor == 1) return nullptr;
  return {{"rope_type", "llama3"},
          {"factor", rope.factor},
          {"low_freq_factor", rope.low_freq_factor},
          {"high_freq_factor", rope.high_freq_factor},
          {"original_max_position_embeddings", rope.original_context}};
}

inline nlohmann::json llama_entries(const TransformerConfig& c) {
  const nlohmann::json scaling = rope_scaling_entries(c.rope_scaling);
  nlohmann::json rope{{"rope_type", "default"}};
  if (!scaling.is_null()) rope = scaling;
  rope["rope_theta"] = c.rope_theta;
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
          {"rope_scaling", scaling},
          {"rope_parameters", rope},
          {"attention_dropout", c.attention_dropout},
          {"attention_bias", false},
          {"mlp_bias", false}};
}

inline void make_mixtral(nlohmann::json& entries, const MixtureConfig& m) {
  entries.update({{"architectures", {"MixtralForCausalLM"}},
                  {"model_type", "mixtral"},
                  {"num_local_experts", m.experts},
                  {"num_experts_per_tok", m.top_k},
                  {"router_aux_loss_coef", m.balance_loss},
                  {"router_jitter_noise", 0.0},
                  {"output_router_logits", false},
                  {"sliding_window", nullptr}});
  entries.erase("attention_bias");
  entries.erase("mlp_bias");
}

// What the mask does to every text: documents are the run's.
inline nlohmann::json mask_entries(const MaskOptions& mask) {
  nlohmann::json entries = nlohmann::json::object();
  if (mask.window > 0) entries["window"] = mask.window;
  if (mask.prefix > 0) entries["prefix"] = mask.prefix;
  if (mask.alibi) entries["alibi"] = true;
  return entries;
}

// All entries but the type of the weights and the special tokens.
inline nlohmann::json model_entries(const TransformerConfig& config) {
  nlohmann::json entries =
      config.dialect == Dialect::gpt2 ? gpt2_entries(config) : llama_entries(config);
  if (config.mixture.experts > 0) make_mixtral(entries, config.mixture);
  entries["vocab_size"] = config.vocabulary;
  entries["tie_word_embeddings"] = config.tied;
  entries["initializer_range"] = config.deviation;
  if (const nlohmann::json mask = mask_entries(config.mask); !mask.empty())
    entries["yotta_mask"] = mask;
  return entries;
}

// `came_in` with the entries of `now` that are not what was read from it.
inline nlohmann::json changed_entries(const std::string& came_in, const nlohmann::json& now) {
  const nlohmann::json before =
      model_entries(parse_hugging_face_config(came_in, "the config.json that the model came with"));
  nlohmann::json entries = parse_json(came_in);
  for (const auto& [key, value] : now.items())
    if (!before.contains(key) || before.at(key) != value) entries[key] = value;
  for (const auto& [key, value] : before.items())
    if (!now.contains(key)) entries.erase(key);
  return entries;
}
}  // namespace detail

YOTTA_INLINE std::string hugging_face_config(const TransformerConfig& config,
                                             const std::string& came_in) {
  expect_hugging_face(config);
  nlohmann::json entries = detail::model_entries(config);
  if (came_in.empty())
    entries.update({{"bos_token_id", nullptr}, {"eos_token_id", nullptr}});
  else
    entries = detail::changed_entries(came_in, entries);
  const char* const type = entries.contains("dtype") ? "dtype" : "torch_dtype";
  entries[type] = detail::torch_name(config.dtype);
  return entries.dump(2) + "\n";
}

// ---- sizes: reading -----------------------------------------------------------------------------

namespace detail {
// The entries of a config.json, each of the type that is asked for; null counts as absent.
class ConfigEntries {
 public:
  ConfigEntries(const std::string& text, std::string source, Where where)
      : source_(std::move(source)), where_(where) {
    try {
      entries_ = parse_json(text);
    } catch (const JsonProblem& problem) {
      fail(where, "{} is not a JSON object: {}", source_, problem.what());
    }
    if (!entries_.is_object()) fail(where, "{} is not a JSON object", source_);
  }

  bool has(const char* key) const { return entries_.contains(key) && !entries_.at(key).is_null(); }

  int64_t size(const char* key) const {
    const nlohmann::json& value = at(key);
    constexpr int64_t most = int64_t{1} << 31;  // products of two of them fit
    if (!value.is_number_integer() || value.get<double>() < 0 ||
        value.get<double>() > static_cast<double>(most))
      fail(where_, "{}: {} is {}, expected a size", source_, key, json_excerpt(value));
    return value.get<int64_t>();
  }
  int64_t size(const char* key, int64_t absent) const { return has(key) ? size(key) : absent; }

  double number(const char* key, const NumberRange& range) const {
    if (!at(key).is_number() || !range.holds(at(key).get<double>()))
      fail(where_, "{}: {} is {}, expected {}", source_, key, json_excerpt(at(key)),
           describe(range));
    return at(key).get<double>();
  }
  double number(const char* key, const NumberRange& range, double absent) const {
    return has(key) ? number(key, range) : absent;
  }
  bool flag(const char* key, bool absent) const {
    if (!has(key)) return absent;
    if (!at(key).is_boolean())
      fail(where_, "{}: {} is {}, expected true or false", source_, key, json_excerpt(at(key)));
    return at(key).get<bool>();
  }
  std::string word(const char* key, const char* absent) const {
    if (!has(key)) return absent;
    if (!at(key).is_string() || has_control_characters(at(key).get_ref<const std::string&>()))
      fail(where_, "{}: {} is {}, expected a word", source_, key, json_excerpt(at(key)));
    return at(key).get<std::string>();
  }
  // The object under a key; an empty one if absent. `kind` follows its name in errors.
  ConfigEntries object(const char* key, const std::string& kind = "") const {
    return {has(key) ? at(key).dump() : "{}", source_ + ": " + key + kind, where_};
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
  config.norm_epsilon = entries.number("layer_norm_epsilon", norm_epsilon_range, 1e-5);
  return config;
}

inline void expect_whole_heads_turned(const ConfigEntries& entries) {
  const double part = entries.number("partial_rotary_factor", {0, 1}, 1);
  if (part != 1)
    entries.refuse(
        fmt::format("partial_rotary_factor is {}: a part of each head is not rotated", part));
}

// What rope_scaling (before version 5) or rope_parameters (since) asks for.
inline RopeScaling read_rope_scaling(const ConfigEntries& entries, const char* key) {
  const ConfigEntries rope = entries.object(key);
  expect_whole_heads_turned(rope);
  const std::string type = rope.word("rope_type", rope.word("type", "default").c_str());
  if (type == "default") return {};
  if (type != "llama3")
    entries.refuse(
        fmt::format("{} asks for a changed rope ({}), which is not default or llama3", key, type));
  const ConfigEntries llama3 = entries.object(key, " (llama3)");
  RopeScaling scaling;
  scaling.factor = llama3.number("factor", rope_factor_range);
  scaling.low_freq_factor = llama3.number("low_freq_factor", rope_limit_range);
  scaling.high_freq_factor = llama3.number("high_freq_factor", rope_limit_range);
  scaling.original_context = llama3.size("original_max_position_embeddings");
  if (scaling.original_context == 0) llama3.refuse("original_max_position_embeddings is 0");
  if (scaling.high_freq_factor <= scaling.low_freq_factor)
    llama3.refuse(fmt::format("high_freq_factor {} must be above low_freq_factor {}",
                              scaling.high_freq_factor, scaling.low_freq_factor));
  return scaling;
}

// `usual`: theta where it is not given.
inline void read_rope(const ConfigEntries& entries, TransformerConfig& config, double usual) {
  expect_whole_heads_turned(entries);
  const bool has_old = entries.has("rope_scaling"), has_new = entries.has("rope_parameters");
  config.rope_scaling = read_rope_scaling(entries, has_new ? "rope_parameters" : "rope_scaling");
  if (has_old && has_new && read_rope_scaling(entries, "rope_scaling") != config.rope_scaling)
    entries.refuse("rope_scaling and rope_parameters differ");
  const double theta = entries.number("rope_theta", rope_theta_range, usual);
  config.rope_theta =
      entries.object("rope_parameters").number("rope_theta", rope_theta_range, theta);
}

inline TransformerConfig read_llama(const ConfigEntries& entries, double usual_theta = 10000) {
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
  config.norm_epsilon = entries.number("rms_norm_eps", norm_epsilon_range, 1e-6);
  read_rope(entries, config, usual_theta);
  return config;
}

inline MaskOptions read_mask(const ConfigEntries& entries) {
  const ConfigEntries mask = entries.object("yotta_mask");
  return {.window = mask.size("window", 0),
          .prefix = mask.size("prefix", 0),
          .alibi = mask.flag("alibi", false)};
}

inline TransformerConfig read_mixtral(const ConfigEntries& entries) {
  TransformerConfig config = read_llama(entries, 1e6);
  config.norm_epsilon = entries.number("rms_norm_eps", norm_epsilon_range, 1e-5);
  config.mixture.experts = entries.size("num_local_experts");
  config.mixture.top_k = entries.size("num_experts_per_tok");
  if (config.mixture.experts == 0) entries.refuse("num_local_experts is 0");
  if (config.mixture.top_k == 1)
    entries.refuse("num_experts_per_tok is 1, and Mixtral makes the weight of one expert 1");
  if (const int64_t window = entries.size("sliding_window", config.context);
      window < config.context)
    entries.refuse(
        fmt::format("a sliding_window of {} in a context of {}", window, config.context));
  return config;
}
}  // namespace detail

namespace detail {
// An error names the file.
inline void check_config(const TransformerConfig& config, const std::string& source, Where where) {
  try {
    config.check(where);
  } catch (const Error& error) {
    const std::string_view place_and_text = error.what();
    fail(where, "{}: {}", source, place_and_text.substr(at(where).size() + 2));
  }
}
}  // namespace detail

YOTTA_INLINE TransformerConfig parse_hugging_face_config(const std::string& text,
                                                         const std::string& source, Where where) {
  const detail::ConfigEntries entries(text, source, where);
  const std::string type = entries.word("model_type", "(absent)");
  if (type != "gpt2" && type != "llama" && type != "mixtral")
    entries.refuse("model_type is " + type + ", not gpt2, llama or mixtral");
  TransformerConfig config = type == "gpt2"    ? detail::read_gpt2(entries)
                             : type == "llama" ? detail::read_llama(entries)
                                               : detail::read_mixtral(entries);
  config.mask = detail::read_mask(entries);
  if (config.mask != MaskOptions{}) config.attention = AttentionKind::flex;
  config.deviation = entries.number("initializer_range", deviation_range, 0.02);
  const std::string dtype = entries.word("dtype", "float32");
  const std::string stored = entries.word("torch_dtype", dtype.c_str());
  config.dtype = stored == "float64" ? DType::f64 : stored == "bfloat16" ? DType::bf16 : DType::f32;
  detail::check_config(config, source, where);
  return config;
}

}  // namespace yotta
