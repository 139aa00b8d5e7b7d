"""Writes the golden models qwen2, qwen3_moe and gemma3 as GGUF files, for test_models.

Run where numpy and gguf (0.19.0) are installed, in the folder of this file:
    python3 make_families.py ../models .
Tensor and metadata names come from gguf's own tables. As llama.cpp's converter does: vectors and
routers are F32, Gemma's norms are stored with 1 added, the experts of a layer are stacked.
"""
import json, struct, sys
import numpy as np
import gguf

FAMILIES = {"qwen2": "qwen2", "qwen3_moe": "qwen3moe", "gemma3": "gemma3"}


def read(path):
    """Tensors of a BF16 safetensors file as uint16."""
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            out[name] = np.frombuffer(raw[8 + n + begin:8 + n + end], np.uint16).reshape(t["shape"])
    return out


def stack_experts(tensors, c):
    """model.layers.0.mlp.experts.N.up_proj.weight -> model.layers.0.mlp.experts.up_proj.weight"""
    for i in range(c["num_hidden_layers"]):
        for part in ("gate_proj", "up_proj", "down_proj"):
            name = f"model.layers.{i}.mlp.experts.%s{part}.weight"
            tensors[name % ""] = np.stack([tensors.pop(name % f"{e}.") for e in range(c["num_local_experts"])])


def keys(w, c):
    w.add_block_count(c["num_hidden_layers"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    rope = c["rope_parameters"]
    w.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
    if "head_dim" in c:
        w.add_key_length(c["head_dim"])
        w.add_value_length(c["head_dim"])
    if c["sliding_window"]:
        w.add_sliding_window(c["sliding_window"])
    if "num_local_experts" in c:
        w.add_expert_count(c["num_local_experts"])
        w.add_expert_used_count(c["num_experts_per_tok"])
        w.add_expert_feed_forward_length(c["moe_intermediate_size"])


def convert(src, dst, arch):
    c = json.load(open(f"{src}/config.json"))
    tensors = read(f"{src}/model.safetensors")
    if "num_local_experts" in c:
        stack_experts(tensors, c)
    model_arch = next(a for a, n in gguf.MODEL_ARCH_NAMES.items() if n == arch)
    names = gguf.get_tensor_name_map(model_arch, c["num_hidden_layers"])
    w = gguf.GGUFWriter(dst, arch)
    keys(w, c)
    for name, bits in sorted(tensors.items()):
        to = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if bits.ndim == 1 or "mlp.gate." in name:
            v = (bits.astype(np.uint32) << 16).view(np.float32)
            w.add_tensor(to, v + np.float32(1) if arch == "gemma3" else v)
        else:
            w.add_tensor(to, bits.copy().view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


for model, arch in FAMILIES.items():
    convert(f"{sys.argv[1]}/{model}", f"{sys.argv[2]}/{model}.gguf", arch)
