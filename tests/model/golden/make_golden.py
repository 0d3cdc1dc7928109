#!/usr/bin/env python3
"""Makes the files in this folder: tiny GPT-2, Llama and Mixtral checkpoints written by transformers, and the
logits that transformers computes with them. The tests compare ours with these; they need no Python.

    python3 -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/model/golden/make_golden.py

Sizes are all different, so that a transposed matrix cannot fit, and every weight is random, biases and
norms too, so that none can be forgotten. Llama is tiny and yet in three files with an index.
"""
import os
import pathlib
import shutil

import torch
from safetensors.torch import save_file
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MixtralConfig,
                          MixtralForCausalLM)

HERE = pathlib.Path(__file__).resolve().parent
BATCH, LENGTH = 2, 6


def gpt2():
    config = GPT2Config(vocab_size=11, n_positions=7, n_embd=8, n_layer=2, n_head=2, n_inner=20,
                        layer_norm_epsilon=1e-3, bos_token_id=None, eos_token_id=None)
    return GPT2LMHeadModel(config)


def llama():
    config = LlamaConfig(vocab_size=11, max_position_embeddings=7, hidden_size=16, intermediate_size=20,
                         num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         rms_norm_eps=1e-2, rope_parameters={"rope_type": "default", "rope_theta": 100.0},
                         tie_word_embeddings=False, bos_token_id=None, eos_token_id=None)
    return LlamaForCausalLM(config)


def mixtral():
    config = MixtralConfig(vocab_size=11, max_position_embeddings=7, hidden_size=16, intermediate_size=20,
                           num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                           num_local_experts=5, num_experts_per_tok=2, sliding_window=None, rms_norm_eps=1e-2,
                           rope_parameters={"rope_type": "default", "rope_theta": 100.0},
                           tie_word_embeddings=False, bos_token_id=None, eos_token_id=None)
    return MixtralForCausalLM(config)


def make(name, model, shard_size):
    torch.manual_seed(1)
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.4)
    model.eval()
    ids = torch.randint(0, model.config.vocab_size, (BATCH, LENGTH))
    with torch.no_grad():
        logits = model(ids).logits
    model.save_pretrained(folder, max_shard_size=shard_size)
    (folder / "generation_config.json").unlink(missing_ok=True)
    save_file({"input_ids": ids.to(torch.int32), "logits": logits.contiguous()},
              folder / "expected.safetensors")
    for file in folder.iterdir():
        os.chmod(file, 0o644)
    print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters, "
          f"logits up to {logits.abs().max():.2f}")


make("gpt2", gpt2(), "1GB")
make("llama", llama(), "6KB")
make("mixtral", mixtral(), "1GB")
