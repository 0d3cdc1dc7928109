#!/usr/bin/env python3
"""Opens checkpoints that `train --save DIR` wrote with Hugging Face's transformers. Run by hand:

    python3 -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/model/hugging_face_check.py DIR...

Every weight must be found, and none left over. If DIR holds expected.safetensors (input_ids, logits), as
the ones made by YOTTA_KEEP_CHECKPOINTS do (see golden/README.md), the logits must agree: to 1e-4, and to
0.05 for weights in bf16, with which our layers round what they multiply to bf16 too.
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM


def check(folder):
    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    stored = json.loads((pathlib.Path(folder) / "config.json").read_text()).get("torch_dtype")
    tolerance = 0.05 if stored == "bfloat16" else 1e-4
    model = model.eval().float()
    problems = [f"{kind}: {sorted(report[kind])}" for kind in
                ("missing_keys", "unexpected_keys", "mismatched_keys") if report.get(kind)]
    expected = pathlib.Path(folder) / "expected.safetensors"
    said = "logits not compared: no expected.safetensors"
    if expected.exists():
        ours = load_file(expected)
        with torch.no_grad():
            theirs = model(ours["input_ids"].long()).logits
        difference = (theirs - ours["logits"]).abs().max().item()
        said = f"logits up to {theirs.abs().max().item():.3f} differ by at most {difference:.2e}"
        if not difference <= tolerance:
            problems.append("the logits differ")
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{folder}: {type(model).__name__}, {count} parameters, {said}")
    for problem in problems:
        print(f"    FAILED {problem}")
    return not problems


if len(sys.argv) < 2:
    sys.exit(__doc__)
sys.exit(0 if all([check(folder) for folder in sys.argv[1:]]) else 1)
