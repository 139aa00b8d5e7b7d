"""Codes, scales and products of quantized inputs, as compressed-tensors 0.19.0 makes them.

usage: make_actq.py OUT.safetensors   (torch on the CPU, compressed-tensors 0.19.0)

x [T,K] holds ordinary rows, a row of zeros, huge and subnormal ones, an outlier, and rows that fall
on rounding boundaries when the scale is 1. Each scheme has
  NAME.code [T,K] f32, NAME.scale [T,G] f32 (G groups, with the global scale in it), NAME.zero [T,G]
  NAME.w [N,K] f32 codes, NAME.ws [N,GW] f32, NAME.wz [N,GW] i32 (W4 alone): a weight, low precision
  NAME.y [T,N] f64: ((code - zero) * scale) ((w - wz) * ws)^T in float64, from the codes
"""
import sys

import torch
from compressed_tensors.quantization.lifecycle.forward import quantize
from compressed_tensors.quantization.quant_args import QuantizationArgs
from compressed_tensors.quantization.utils import compute_dynamic_scales_and_zp
from safetensors.torch import save_file

T, K, N = 11, 128, 5
F8 = torch.float8_e4m3fn
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def midpoints(values):
    values = values[torch.isfinite(values)].sort().values
    return (values[1:] + values[:-1]) / 2


def tied_row(points, top):
    row = torch.cat([points, -points]).repeat(K)[:K].clone()
    row[::16] = top
    return row


def inputs(gen):
    x = torch.randn(T, K, generator=gen)
    x[1] = 0
    x[2] *= 1e37
    x[3] = torch.randint(-2000, 2000, (K,), generator=gen) * 2.0**-149
    x[4] = tied_row(torch.arange(0.5, 127), 127.5)
    e4m3 = torch.arange(127, dtype=torch.uint8).view(F8).float()
    x[5] = tied_row(midpoints(e4m3), 448)
    x[6] = tied_row(midpoints(E2M1), 6)
    x[7] = torch.exp(4 * x[7]) * torch.sign(torch.randn(K, generator=gen))
    x[8] = x[8].abs() + 3
    x[9, 77] = 9000
    x[10, 64:] = 0
    return x


def act(name, args, x, static_scale=None, static_zero=0, global_scale=None):
    # why: the token strategy keeps the first two axes, batch and token
    x = x[None]
    if static_scale is None:
        s, z = compute_dynamic_scales_and_zp(x, args, None, global_scale)
    else:
        s = torch.tensor([static_scale])
        z = torch.tensor([static_zero], dtype=torch.int8)
    code = quantize(x, s, z, args, global_scale=global_scale)
    if global_scale is not None:
        s = s / global_scale
    s = (s[0] if s.ndim == 3 else s[None]).float().expand(T, -1)
    z = (z[0] if z.ndim == 3 else z[None]).float().int().expand(T, -1)
    out = {"code": code[0], "scale": s, "zero": z}
    return {f"{name}.{k}": v.contiguous() for k, v in out.items()}


def weight(name, kind, group, gen, y):
    n_group = K // group
    w = torch.randint(-127, 128, (N, K), generator=gen).float()
    if kind == "W4":
        w = torch.randint(-8, 8, (N, K), generator=gen).float()
        y[f"{name}.wz"] = torch.randint(-8, 8, (N, n_group), generator=gen).int()
    elif kind == "F8":
        w = (torch.randn(N, K, generator=gen) * 60).to(F8).float()
    elif kind == "F4":
        w = E2M1[torch.randint(0, 8, (N, K), generator=gen)]
        w = w * torch.sign(torch.randn(N, K, generator=gen))
    y[f"{name}.w"] = w
    y[f"{name}.ws"] = torch.rand(N, n_group, generator=gen).bfloat16().float() * 0.01
    zero = y.get(f"{name}.wz", torch.zeros(N, n_group)).double()
    spread = lambda a: a.double().repeat_interleave(K // a.shape[1], 1)
    xq = (y[f"{name}.code"].double() - spread(y[f"{name}.zero"])) * spread(y[f"{name}.scale"])
    wq = (w.double() - spread(zero)) * spread(y[f"{name}.ws"])
    y[f"{name}.y"] = xq @ wq.T


def main():
    gen = torch.Generator().manual_seed(20261129)
    x = inputs(gen)
    y = {"x": x}
    i8 = dict(num_bits=8, type="int")
    f8 = dict(num_bits=8, type="float", symmetric=True)
    token = dict(strategy="token", dynamic=True)
    tensor = dict(strategy="tensor", dynamic=False)
    local = dict(num_bits=4, type="float", symmetric=True, strategy="tensor_group", group_size=16)
    y |= act("i8_token", QuantizationArgs(**i8, **token, symmetric=True), x)
    y |= act("i8_group", QuantizationArgs(**i8, strategy="group", group_size=32, dynamic=True), x)
    y |= act("i8_tensor", QuantizationArgs(**i8, **tensor, symmetric=True), x, 1.0)
    y |= act("i8_asym", QuantizationArgs(**i8, **token, symmetric=False), x)
    y |= act("i8_asym_tensor", QuantizationArgs(**i8, **tensor, symmetric=False), x, 0.37, -43)
    y |= act("i8_w4", QuantizationArgs(**i8, **token, symmetric=True), x)
    y |= act("f8_token", QuantizationArgs(**f8, **token), x)
    y |= act("f8_tensor", QuantizationArgs(**f8, **tensor), x, 1.0)
    y |= act("f8_group", QuantizationArgs(**f8, strategy="group", group_size=32, dynamic=True), x)
    # why: with 16 the group maximum 6 gives the scale 16, exact in e4m3, and so 1 under it
    args = QuantizationArgs(**local, dynamic="local", scale_dtype=F8)
    y |= act("f4_local", args, x, global_scale=torch.tensor([16.0]))
    y |= act("f4_w4", args, x, global_scale=torch.tensor([2688.0 / 9000]))
    for name, kind, group in [
        ("i8_token", "I8", K), ("i8_group", "I8", 32), ("i8_tensor", "I8", K),
        ("i8_asym", "I8", 64), ("i8_asym_tensor", "W4", 32), ("i8_w4", "W4", 32),
        ("f8_token", "F8", K), ("f8_tensor", "F8", K), ("f8_group", "F8", 64),
        ("f4_local", "F4", 16), ("f4_w4", "W4", 64),
    ]:
        weight(name, kind, group, gen, y)
    save_file({k: v.contiguous() for k, v in y.items()}, sys.argv[1])


main()
