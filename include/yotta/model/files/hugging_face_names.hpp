// Names: which of our parameters is which tensor of a Hugging Face checkpoint.
//
//     ours, (out, in)                           theirs
//     layers.0.attention.q.weight (C, C) ─┐     GPT-2 keeps one matrix, and transposed ("Conv1D"):
//     layers.0.attention.k.weight (C, C) ─┼──>  transformer.h.0.attn.c_attn.weight (C, 3C)
//     layers.0.attention.v.weight (C, C) ─┘     [ q^T | k^T | v^T ]
//
//     layers.0.attention.q.weight (C, C) ────>  Llama: model.layers.0.self_attn.q_proj.weight (C, C)
//
// Ours are stacked over their rows, then transposed where theirs is. Rope needs no permutation: ours
// turns the same pairs (i, i + d/2) as theirs. A tied output matrix is not stored a second time.
// Letters: C width, F feed-forward width, V vocabulary, T context, d head size.
// Reference: modeling_gpt2.py and modeling_llama.py of Hugging Face's transformers.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "yotta/model/config.hpp"
#include "yotta/model/files/safetensors.hpp"

namespace yotta {

struct HuggingFaceTensor {
  std::string name;                // theirs
  std::vector<std::string> parts;  // ours, stacked over rows
  bool transposed = false;         // theirs is (in, out)
};

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

inline void add_llama_layer(std::vector<HuggingFaceTensor>& to, const std::string& theirs,
                            const std::string& ours) {
  constexpr const char* pairs[][2] = {
      {"input_layernorm", "norm1"},        {"self_attn.q_proj", "attention.q"},
      {"self_attn.k_proj", "attention.k"}, {"self_attn.v_proj", "attention.v"},
      {"self_attn.o_proj", "attention.o"}, {"post_attention_layernorm", "norm2"},
      {"mlp.gate_proj", "mlp.gate"},       {"mlp.up_proj", "mlp.up"},
      {"mlp.down_proj", "mlp.down"}};
  for (const auto& [their_name, our_name] : pairs)
    to.push_back({theirs + their_name + ".weight", {ours + our_name + ".weight"}, false});
}
}  // namespace detail

// Every tensor of a checkpoint of this model, in forward order.
inline std::vector<HuggingFaceTensor> hugging_face_tensors(const TransformerConfig& config) {
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
      detail::add_llama_layer(all, body + "layers." + number, "layers." + number);
  }
  all.push_back({body + (gpt2 ? "ln_f.weight" : "norm.weight"), {"norm.weight"}});
  if (gpt2) all.push_back({body + "ln_f.bias", {"norm.bias"}});
  if (!config.tied) all.push_back({"lm_head.weight", {"head.weight"}});
  return all;
}

// What a checkpoint may hold beside its weights: masks and angles that older versions stored, and a
// tied output matrix a second time.
inline bool is_ignored_tensor(const std::string& name, const TransformerConfig& config) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq") || (config.tied && name == "lm_head.weight");
}

// Throws unless `weights` are the parameters of a model of this configuration.
inline void expect_model_names(const TransformerConfig& config,
                               const std::vector<NamedTensor>& weights, Where where) {
  std::vector<std::string> expected, found;
  for (const HuggingFaceTensor& item : hugging_face_tensors(config))
    expected.insert(expected.end(), item.parts.begin(), item.parts.end());
  for (const NamedTensor& each : weights) found.push_back(each.name);
  expect_same_names("the model in memory", expected, found, where);
}

// Our tensors that make up one of theirs.
inline std::vector<Tensor> find_parts(const HuggingFaceTensor& item,
                                      const std::vector<NamedTensor>& weights) {
  std::vector<Tensor> parts;
  for (const std::string& part : item.parts)
    parts.push_back(std::find_if(weights.begin(), weights.end(), [&](const NamedTensor& each) {
                      return each.name == part;
                    })->value);
  return parts;
}

// The shape of theirs: ours stacked over rows, then transposed.
inline Shape hugging_face_shape(const HuggingFaceTensor& item, const std::vector<Tensor>& parts) {
  Shape shape = parts[0].shape();
  for (size_t i = 1; i < parts.size(); ++i) shape[0] += parts[i].dim(0);
  if (item.transposed) std::reverse(shape.begin(), shape.end());
  return shape;
}

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

// Theirs from ours. A tensor that is the same in both is not copied.
inline Tensor to_hugging_face(const HuggingFaceTensor& item, const std::vector<Tensor>& parts) {
  if (parts.size() == 1 && !item.transposed) return parts[0];
  Shape shape = hugging_face_shape(item, parts);
  if (item.transposed) std::reverse(shape.begin(), shape.end());
  const Tensor stacked = Tensor::empty(shape, parts[0].dtype());
  int64_t row = 0;
  for (const Tensor& part : parts) {
    stacked.rows(row, row + part.dim(0)).copy_from(part);
    row += part.dim(0);
  }
  return item.transposed ? transposed_copy(stacked) : stacked;
}

// Ours from theirs, one for each of `parts`: views of one buffer.
inline std::vector<Tensor> from_hugging_face(const HuggingFaceTensor& item, const Tensor& theirs,
                                             const std::vector<Tensor>& parts) {
  const Tensor stacked = item.transposed ? transposed_copy(theirs) : theirs;
  std::vector<Tensor> values;
  int64_t row = 0;
  for (const Tensor& part : parts) {
    values.push_back(stacked.rows(row, row + part.dim(0)));
    row += part.dim(0);
  }
  return values;
}

}  // namespace yotta
