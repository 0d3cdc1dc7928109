// The models that are compared with PyTorch's, and the same models there.
//
//     Size            a transformer and the batch of a step
//     torch_model     Python: hidden(p, layers, d, ids) of weights p, which travel in a file
//
// The weights have the names of our parameters. hidden() gives the last norm's output, of GPT-2's
// dialect or of Llama's, by the weights that there are; with caches it appends keys and values to
// them, and attends to all that they hold.
#pragma once

#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "torch_peer.hpp"
#include "yotta/model/files/safetensors.hpp"
#include "yotta/nn/transformer.hpp"

namespace yotta::bench {

struct Size {
  const char* name;
  TransformerConfig config;
  int64_t batch;
};
inline const std::vector<Size>& all_sizes() {
  static const std::vector<Size> sizes = {
      {"6x384", gpt2_config(6, 384, 6, 256, 256), 8},
      {"gpt2-small", gpt2_124m(), 4},
      {"4x256", gpt2_config(4, 256, 4, 256, 256), 4},
      {"llama-8x512", llama_config(8, 512, 1408, 8, 4, 256, 256), 4},
      {"tiny", gpt2_config(2, 32, 2, 16, 64), 2},
      {"llama-tiny", llama_config(2, 32, 64, 4, 2, 16, 64), 2}};
  return sizes;
}
// What --size takes: the names, and all for those that are no toys.
inline std::vector<std::string> size_names() {
  std::vector<std::string> names = {"all"};
  for (const Size& each : all_sizes()) names.emplace_back(each.name);
  return names;
}
inline std::vector<Size> sizes_named(const std::vector<std::string>& names, DType dtype) {
  std::vector<Size> found;
  for (const std::string& name : names)
    for (const Size& each : all_sizes())
      if (name == each.name || (name == "all" && each.config.width > 32)) found.push_back(each);
  for (Size& each : found) each.config.dtype = dtype;
  return found;
}

inline constexpr const char* torch_model = R"(
import json, time, torch, torch.nn.functional as F
state = {}
def tensors(path):
    with open(path, 'rb') as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), 'little')))
        data = file.read()
    return {name: torch.frombuffer(bytearray(data[it['data_offsets'][0]:it['data_offsets'][1]]),
                                   dtype=torch.float32).reshape(it['shape'])
            for name, it in head.items() if name != '__metadata__'}
def norm(p, x, name):
    w, b = p[name + '.weight'], p.get(name + '.bias')
    return F.rms_norm(x, w.shape, w, 1e-5) if b is None else F.layer_norm(x, w.shape, w, b, 1e-5)
def linear(p, x, name): return F.linear(x, p[name + '.weight'], p.get(name + '.bias'))
def rope(x, first):
    d, T = x.shape[-1], x.shape[-2]
    angle = torch.arange(first, first + T)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
    c, s = angle.cos(), angle.sin()
    a, b = x[..., :d // 2], x[..., d // 2:]
    return torch.cat((a * c - b * s, b * c + a * s), -1).to(x.dtype)
def table(p): return p['head.weight'] if 'head.weight' in p else p['embedding.token.weight']
def hidden(p, layers, d, ids, caches=None, first=0):
    x = F.embedding(ids, p['embedding.token.weight'])
    llama, T = 'head.weight' in p, ids.shape[1]
    if not llama: x = x + p['embedding.position.weight'][first:first + T]
    for i in range(layers):
        at = f'layers.{i}.attention.'
        h = norm(p, x, f'layers.{i}.norm1')
        q, k, v = (linear(p, h, at + e).unflatten(2, (-1, d)).transpose(1, 2) for e in 'qkv')
        if llama: q, k = rope(q, first), rope(k, first)
        if caches is not None:
            keys, values = caches[i]
            keys[:, :, first:first + T], values[:, :, first:first + T] = k, v
            k, v = keys[:, :, :first + T], values[:, :, :first + T]
        o = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1,
                                           enable_gqa=q.shape[1] != k.shape[1])
        x = x + linear(p, o.transpose(1, 2).flatten(2), at + 'o')
        h, at = norm(p, x, f'layers.{i}.norm2'), f'layers.{i}.mlp.'
        if llama: h = F.silu(linear(p, h, at + 'gate')) * linear(p, h, at + 'up')
        else: h = F.gelu(linear(p, h, at + 'up'), approximate='tanh')
        x = x + linear(p, h, at + 'down')
    return norm(p, x, 'norm')
)";

// PyTorch loads a model's weights: load\tFILE\tlayers\td and what follows.
inline void load(TorchPeer& torch, const Transformer& model, const std::string& more) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("yotta_bench_{}.safetensors", getpid());
  std::vector<NamedTensor> weights;
  for (const ParameterPtr& each : parameters(model.stack()))
    weights.push_back({each->name, each->wide().to(Device::cpu)});
  save_safetensors(file.string(), weights);
  const TransformerConfig& c = model.config();
  torch.seconds(fmt::format("load\t{}\t{}\t{}\t{}", file.string(), c.layers, c.head_size(), more));
  std::filesystem::remove(file);
}

}  // namespace yotta::bench
