// Hugging Face: the names, shapes and sizes that their transformers library gives to our models.
//
// NAMES: which of our parameters is which tensor of a checkpoint.
//
//    ours, (out, in)                           theirs
//    layers.0.attention.q.weight (C, C) ─┐     GPT-2 keeps one matrix, and transposed ("Conv1D"):
//    layers.0.attention.k.weight (C, C) ─┼──>  transformer.h.0.attn.c_attn.weight (C, 3C)
//    layers.0.attention.v.weight (C, C) ─┘     [ q^T | k^T | v^T ]
//
//    layers.0.attention.q.weight (C, C) ────>  Llama: model.layers.0.self_attn.q_proj.weight (C, C)
//
// Ours are stacked over their rows, then transposed where theirs is. Rope needs no permutation:
// ours turns the same pairs (i, i + d/2) as theirs. A tied output matrix is not stored a second
// time. A file of others may hold it under either name, or twice. Letters: C width, F feed-forward
// width, V vocabulary, T context, d head size.
//
// A mixture of experts is Mixtral's, a Llama with other names where the MLP is:
//
//    layers.0.mlp.router (E, C)      ───>  model.layers.0.block_sparse_moe.gate
//    ... .experts.3.gate, .down, .up ───>  ... .experts.3.w1, .w2, .w3
//
// SIZES: config.json describes the model.
//
//     ours            GPT-2 (GPT2LMHeadModel)             Llama (LlamaForCausalLM), Mixtral
//     width           n_embd                              hidden_size
//     layers          n_layer                             num_hidden_layers
//     heads           n_head                              num_attention_heads
//     kv_heads        (as many as heads)                  num_key_value_heads
//     feed_forward    n_inner, null means 4 C             intermediate_size
//     context         n_positions                         max_position_embeddings
//     norm_epsilon    layer_norm_epsilon                  rms_norm_eps
//     rope_theta                                          rope_parameters.rope_theta (since version
//                                                         5), rope_theta (before); we write both
//     rope_scaling                                        rope_parameters, rope_scaling: default or
//                                                         llama3
//     experts, top_k                                      Mixtral: num_local_experts,
//                                                         num_experts_per_tok
//     mask            yotta_mask: window, prefix, alibi   the same; no entry of theirs
//     dropout         embd_pdrop = resid_pdrop            (none)
//     attention_dropout attn_pdrop                        attention_dropout
//
// Dropout is written for others and not read, nor is the balance loss (router_aux_loss_coef): they
// belong to a run, not to a model, as documents do. Others do not know yotta_mask: they would
// compute such a model without it.
// Contract: what our transformer cannot compute is refused by the name of its entry: another model
// or activation, biases in Llama, rope scaled otherwise, a head size other than C / H. What does
// not change the result is ignored. Sizes come back through TransformerConfig::check. References:
// https://huggingface.co/docs/transformers, GPT2Config, LlamaConfig and MixtralConfig;
// modeling_gpt2.py, modeling_llama.py and modeling_mixtral.py of the library.
#pragma once

#include <string>
#include <vector>

#include "yotta/model/named_tensor.hpp"
#include "yotta/nn/transformer_config.hpp"

namespace yotta {

// ---- names --------------------------------------------------------------------------------------

struct HuggingFaceTensor {
  std::string name;                // theirs
  std::vector<std::string> parts;  // ours, stacked over rows
  bool transposed = false;         // theirs is (in, out)
};

// Throws if a mixture of experts is none that Mixtral's files can hold.
void expect_hugging_face(const TransformerConfig& config, Where where = Where::current());

// Every tensor of a checkpoint of this model, in forward order.
std::vector<HuggingFaceTensor> hugging_face_tensors(const TransformerConfig& config);

// What a checkpoint may hold beside its weights: masks and angles that older versions stored.
bool is_buffer(const std::string& name);

// The name of the output matrix, which is the token table's second name if the model is tied.
inline constexpr const char* hugging_face_head = "lm_head.weight";

// Throws unless `weights` are the parameters of a model of this configuration.
void expect_model_names(const TransformerConfig& config, const std::vector<NamedTensor>& weights,
                        Where where);

// Our tensors that make up one of theirs.
std::vector<Tensor> find_parts(const HuggingFaceTensor& item,
                               const std::vector<NamedTensor>& weights);

// The shape of theirs: ours stacked over rows, then transposed.
Shape hugging_face_shape(const HuggingFaceTensor& item, const std::vector<Tensor>& parts);

// Theirs from ours. A tensor that is the same in both is not copied.
Tensor to_hugging_face(const HuggingFaceTensor& item, const std::vector<Tensor>& parts);

// Ours from theirs, one for each of `parts`: views of one buffer.
std::vector<Tensor> from_hugging_face(const HuggingFaceTensor& item, const Tensor& theirs,
                                      const std::vector<Tensor>& parts);

// ---- sizes --------------------------------------------------------------------------------------

// The text of config.json. `came_in` is the text of the one that the model came with: all of its
// entries go out again but for those that say what is different now. Without one the tokens are
// bytes, and none of them begins or ends a text.
std::string hugging_face_config(const TransformerConfig& config, const std::string& came_in = "");

// The sizes that the text of a config.json describes; `source` names it in errors. Weights stored
// in 16 bits with 5 of exponent (float16) are held in f32.
TransformerConfig parse_hugging_face_config(const std::string& text, const std::string& source,
                                            Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/files/impl/hugging_face.ipp"
#endif
