"""Loads a quantized folder in transformers and compares its logits with ours.

usage: load_in_transformers.py FOLDER TRILEMMA_BINARY
Needs torch, transformers, compressed-tensors (not part of ./check).
"""
import json, struct, subprocess, sys, tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, trilemma = sys.argv[1], sys.argv[2]
text = "The history of the lighthouse begins in the year 1742, when a storm took three ships."
tok = AutoTokenizer.from_pretrained(folder)
ids = tok(text, add_special_tokens=False)["input_ids"]
ours = json.loads(subprocess.run([trilemma, "tokenize", folder, "--text", text], check=True, capture_output=True).stdout)
print("ids equal:", ids == ours["ids"], len(ids))
chat = tok.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True) if tok.chat_template else None
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
with torch.inference_mode():
    theirs = model(torch.tensor([ids])).logits[0].float()
with tempfile.TemporaryDirectory() as d:
    json.dump([ids], open(f"{d}/ids.json", "w"))
    subprocess.run([trilemma, "score", folder, "--ids", f"{d}/ids.json", "--logits", f"{d}/l.safetensors"], check=True, capture_output=True)
    raw = open(f"{d}/l.safetensors", "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    mine = torch.frombuffer(bytearray(raw[8 + n:]), dtype=torch.float32).reshape(theirs.shape)
    if chat is not None:
        json.dump({"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": True}, open(f"{d}/m.json", "w"))
        out = subprocess.run([trilemma, "render", folder, "--messages", f"{d}/m.json"], check=True, capture_output=True).stdout.decode()
        print("chat template equal:", out == chat)
diff = (mine - theirs).abs()
same = (mine.argmax(-1) == theirs.argmax(-1)).float().mean().item()
print(f"logits {tuple(theirs.shape)}: max |difference| {diff.max().item():.2e}, argmax equal {100 * same:.0f} %")
sys.exit(0 if diff.max().item() < 2e-3 and ids == ours["ids"] else 1)
