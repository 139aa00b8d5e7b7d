"""Writes random blocks of every GGUF type that is decoded, and what gguf-py makes of them.

Run where numpy and gguf (0.19.0) are installed, in the folder of this file:
    python3 make_types.py .
types.gguf holds one tensor [4, 512] a type, named after it; types.safetensors the same tensors as
F32. Scales are finite: powers of two over the whole range, zeros of both signs, subnormals. Q8_K
and F64, which gguf-py does not decode, are decoded here by their definition.
"""
import json, struct, sys
import numpy as np
import gguf
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T

ROWS, COLS = 4, 512
# byte offsets of the f16 scales in a block
SCALES = {T.Q4_0: (0,), T.Q4_1: (0, 2), T.Q5_0: (0,), T.Q5_1: (0, 2), T.Q8_0: (0,), T.Q2_K: (80, 82), T.Q3_K: (108,),
          T.Q4_K: (0, 2), T.Q5_K: (0, 2), T.Q6_K: (208,), T.IQ4_NL: (0,), T.IQ4_XS: (0,), T.TQ1_0: (52,), T.TQ2_0: (64,),
          T.MXFP4: (), T.Q8_K: (), T.F16: (), T.BF16: (), T.F64: (), T.IQ1_S: (0,), T.IQ1_M: (), T.IQ2_XXS: (0,), T.IQ2_XS: (0,),
          T.IQ2_S: (0,), T.IQ3_XXS: (0,), T.IQ3_S: (0,), T.NVFP4: ()}
rng = np.random.default_rng(9)


def halves(n):
    """Finite binary16 numbers as bytes [n, 2]; every fourth one is odd in some way."""
    h = rng.integers(0, 0x7c00, n, dtype=np.uint16) | (rng.integers(0, 2, n, dtype=np.uint16) << 15)
    odd = np.array([0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x3c00], np.uint16)
    h[::4] = odd[rng.integers(0, len(odd), len(h[::4]))]
    return h.view(np.uint8).reshape(n, 2)


def blocks(t):
    per, size = GGML_QUANT_SIZES[t]
    n = ROWS * COLS // per
    if t in (T.F16, T.BF16, T.F64):
        v = rng.standard_normal(n)
        if t == T.F64:
            return v.view(np.uint8).reshape(n, size)
        return (v.astype(np.float16).view(np.uint8) if t == T.F16 else
                (v.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)).reshape(n, size)
    b = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for at in SCALES[t]:
        b[:, at:at + 2] = halves(n)
    if t == T.Q8_K:
        b[:, :4] = rng.standard_normal(n).astype(np.float32).view(np.uint8).reshape(n, 4)
    if t == T.IQ1_M:  # the scale is the upper nibbles of the four last u16
        h = halves(n).copy().view(np.uint16).reshape(n)
        for i in range(4):
            b[:, 49 + 2 * i] = (b[:, 49 + 2 * i] & 15) | ((h >> (4 * i) & 15) << 4).astype(np.uint8)
    if t == T.MXFP4:
        b[:, 0] = np.r_[0, 1, 2, 3, 127, 250, rng.integers(0, 251, n - 6)]
    return b


def values(t, b):
    if t == T.F64:
        return b.reshape(-1).view(np.float64).astype(np.float32)
    if t == T.Q8_K:
        return b[:, :4].copy().view(np.float32) * b[:, 4:260].view(np.int8).astype(np.float32)
    return gguf.dequantize(b.reshape(ROWS, -1), t)


w = gguf.GGUFWriter(f"{sys.argv[1]}/types.gguf", "types")
head, data = {}, b""
for t in SCALES:
    b = blocks(t)
    if t in (T.F16, T.F64):
        w.add_tensor(t.name, b.reshape(-1).view(np.float16 if t == T.F16 else np.float64).reshape(ROWS, COLS))
    else:
        w.add_tensor(t.name, b.reshape(ROWS, -1), raw_dtype=t)
    v = np.ascontiguousarray(values(t, b), np.float32).tobytes()
    head[t.name] = {"dtype": "F32", "shape": [ROWS, COLS], "data_offsets": [len(data), len(data) + len(v)]}
    data += v
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open(f"{sys.argv[1]}/types.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
