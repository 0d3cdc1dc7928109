// llama.cpp as a peer: the GPT-2 models of torch_model.hpp, written as a GGUF file and run by the
// Python package llama_cpp (with gguf, which writes the file).
//
//     llama_load(layers, heads, context, threads, dtype)    from the weights that PyTorch has
//     llama_forced(prompt, tokens), llama_write(..)         as forced() and write() of generate.cpp
//
// llama_load() raises ImportError without these packages, and for a model that is not GPT-2's.
// Weights of matrices have the type that is measured; keys and values are f16, llama.cpp's own
// choice, or f32 beside f32.
#pragma once

namespace yotta::bench {

inline constexpr const char* llama_cpp = R"(
def write_gguf(path, layers, heads, context, dtype):
    import gguf
    p = state['p']
    wide = gguf.GGMLQuantizationType.F32
    matrix = gguf.GGMLQuantizationType.BF16 if dtype == 'bf16' else wide
    file = gguf.GGUFWriter(path, 'gpt2')
    V, C = p['embedding.token.weight'].shape
    file.add_vocab_size(V), file.add_embedding_length(C), file.add_context_length(context)
    file.add_block_count(layers), file.add_head_count(heads), file.add_layer_norm_eps(1e-5)
    file.add_feed_forward_length(p['layers.0.mlp.up.weight'].shape[0])
    file.add_tokenizer_model('none')
    def add(name, x, kind=wide):
        file.add_tensor(name, gguf.quants.quantize(x.float().numpy(), kind), raw_dtype=kind)
    def layer(to, name):
        add(to + '.weight', p[name + '.weight'], matrix if p[name + '.weight'].dim() > 1 else wide)
        add(to + '.bias', p[name + '.bias'])
    add('token_embd.weight', p['embedding.token.weight'], matrix)
    add('position_embd.weight', p['embedding.position.weight'])
    layer('output_norm', 'norm')
    for i in range(layers):
        at, to = f'layers.{i}.', f'blk.{i}.'
        for end, kind in (('weight', matrix), ('bias', wide)):
            qkv = torch.cat([p[f'{at}attention.{e}.{end}'] for e in 'qkv'])
            add(f'{to}attn_qkv.{end}', qkv, kind)
        layer(to + 'attn_norm', at + 'norm1'), layer(to + 'attn_output', at + 'attention.o')
        layer(to + 'ffn_norm', at + 'norm2'), layer(to + 'ffn_up', at + 'mlp.up')
        layer(to + 'ffn_down', at + 'mlp.down')
    file.write_header_to_file(), file.write_kv_data_to_file(), file.write_tensors_to_file()
    file.close()
def llama_load(layers, heads, context, threads, dtype):
    import llama_cpp, os, tempfile
    if 'llama' in state:
        llama_cpp.llama_free(state.pop('llama'))
        llama_cpp.llama_model_free(state.pop('llama_model'))
    if 'head.weight' in state['p']: raise ImportError('only GPT-2 models are written for llama.cpp')
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'model.gguf')
        write_gguf(path, layers, heads, context, dtype)
        model = llama_cpp.llama_model_load_from_file(path.encode(),
                                                     llama_cpp.llama_model_default_params())
    options = llama_cpp.llama_context_default_params()
    options.n_ctx = options.n_batch = context
    options.n_threads = options.n_threads_batch = threads
    if dtype == 'f32': options.type_k = options.type_v = llama_cpp.GGML_TYPE_F32
    state.update(llama=llama_cpp.llama_init_from_model(model, options), llama_model=model,
                 vocabulary=table(state['p']).shape[0])
    return 0
def llama_logits(ids):
    import llama_cpp, numpy
    array = (llama_cpp.llama_token * len(ids))(*ids)
    if llama_cpp.llama_decode(state['llama'], llama_cpp.llama_batch_get_one(array, len(ids))) != 0:
        raise RuntimeError('llama_decode failed')
    last = llama_cpp.llama_get_logits_ith(state['llama'], -1)
    return numpy.ctypeslib.as_array(last, (state['vocabulary'],))
def llama_prompt(ids):
    import llama_cpp
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(state['llama']), True)
    return llama_logits(ids)
def llama_forced(prompt, tokens):
    ids = text(prompt + tokens)[0].tolist()
    last = llama_prompt(ids[:prompt])
    for id in ids[prompt:]: last = llama_logits([id])
    return float(last.max())
def llama_write(prompt, tokens):
    last = llama_prompt(text(prompt)[0].tolist())
    start = time.perf_counter()
    for _ in range(tokens): last = llama_logits([int(last.argmax())])
    return time.perf_counter() - start
)";

}  // namespace yotta::bench
