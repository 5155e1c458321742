#!/usr/bin/env python3
"""Makes the golden files of this folder with plain PyTorch.

    python make_golden.py          (torch 2.11; writes next to itself)

transformer_*.txt: parameters, tokens, loss sum and gradients of tiny decoders. adamw.txt: a few updates of
torch.optim.AdamW. Each line is `name value value ...`; tensors are flattened row by row.
"""

import math
import pathlib

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent


def write(name, lines):
    text = "".join(f"{key} {' '.join(format(float(v), '.9g') for v in values)}\n" for key, values in lines)
    (HERE / name).write_text(f"# Made by make_golden.py with torch {torch.__version__.split('+')[0]}.\n{text}")


def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def rotate(x, theta):
    width, positions = x.shape[-1], x.shape[-2]
    frequencies = theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.outer(torch.arange(positions, dtype=torch.float64), frequencies)
    cos, sin = torch.cat([angles, angles], -1).cos().float(), torch.cat([angles, angles], -1).sin().float()
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def attention(q, k, v):
    """Written out, so that the fused kernel is compared with something else."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    v = v.repeat_interleave(q.shape[1] // v.shape[1], 1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return (scores.masked_fill(~mask, -math.inf).softmax(-1) @ v).transpose(1, 2).flatten(2)


def names(c):
    yield "embed", (c["vocab"], c["dim"])
    width = c["dim"] // c["heads"]
    for i in range(c["layers"]):
        kv = c["kv_heads"] * width
        yield f"{i}.q", (c["dim"], c["dim"])
        yield f"{i}.k", (kv, c["dim"])
        yield f"{i}.v", (kv, c["dim"])
        yield f"{i}.o", (c["dim"], c["dim"])
        yield f"{i}.gate", (c["ff_dim"], c["dim"])
        yield f"{i}.up", (c["ff_dim"], c["dim"])
        yield f"{i}.down", (c["dim"], c["ff_dim"])
        yield f"{i}.norm1", (c["dim"],)
        yield f"{i}.norm2", (c["dim"],)
        if c["qk_norm"]:
            yield f"{i}.q_norm", (width,)
            yield f"{i}.k_norm", (width,)
    yield "norm", (c["dim"],)
    if not c["tied"]:
        yield "head", (c["vocab"], c["dim"])


def loss_sum(c, p, tokens):
    x, targets = tokens[:, :-1], tokens[:, 1:]
    h = F.embedding(x, p["embed"])
    eps, theta = 1e-5, 10000.0
    for i in range(c["layers"]):
        n = rms_norm(h, p[f"{i}.norm1"], eps)
        q = F.linear(n, p[f"{i}.q"]).unflatten(-1, (c["heads"], -1)).transpose(1, 2)
        k = F.linear(n, p[f"{i}.k"]).unflatten(-1, (c["kv_heads"], -1)).transpose(1, 2)
        v = F.linear(n, p[f"{i}.v"]).unflatten(-1, (c["kv_heads"], -1)).transpose(1, 2)
        if c["qk_norm"]:
            q, k = rms_norm(q, p[f"{i}.q_norm"], eps), rms_norm(k, p[f"{i}.k_norm"], eps)
        h = h + F.linear(attention(rotate(q, theta), rotate(k, theta), v), p[f"{i}.o"])
        n = rms_norm(h, p[f"{i}.norm2"], eps)
        h = h + F.linear(F.silu(F.linear(n, p[f"{i}.gate"])) * F.linear(n, p[f"{i}.up"]), p[f"{i}.down"])
    logits = F.linear(rms_norm(h, p["norm"], eps), p["embed" if c["tied"] else "head"])
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")


def transformer(name, seed, **changes):
    c = dict(layers=2, dim=8, heads=2, kv_heads=1, ff_dim=12, context=6, vocab=7, qk_norm=False, tied=False)
    c.update(changes)
    torch.manual_seed(seed)
    p = {n: (0.3 * torch.randn(s) + (1 if len(s) == 1 else 0)).requires_grad_() for n, s in names(c)}
    tokens = torch.randint(c["vocab"], (3, c["context"] + 1))
    loss = loss_sum(c, p, tokens)
    loss.backward()
    write(f"transformer_{name}.txt",
          [("shape", [c[k] for k in ("layers", "dim", "heads", "kv_heads", "ff_dim", "context", "vocab")]),
           ("qk_norm", [c["qk_norm"]]), ("tied", [c["tied"]]), ("tokens", tokens.flatten()), ("loss_sum", [loss.detach()]),
           ("parameters", torch.cat([t.detach().flatten() for t in p.values()])),
           ("gradients", torch.cat([t.grad.flatten() for t in p.values()]))])


def adamw():
    torch.manual_seed(3)
    elements, steps, options = 19, 6, dict(betas=(0.9, 0.99), eps=1e-8)
    matrix, vector = torch.randn(elements).requires_grad_(), torch.randn(elements).requires_grad_()
    optimizer = torch.optim.AdamW([dict(params=[matrix], weight_decay=0.1), dict(params=[vector], weight_decay=0)],
                                  **options)
    lines = [("sizes", [elements, steps]), ("matrix", matrix.detach().clone()), ("vector", vector.detach().clone())]
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = 0.02 / step
        scale = 10.0 ** -step  # gradients of very different sizes
        matrix.grad, vector.grad = scale * torch.randn(elements), scale * torch.randn(elements)
        lines += [(f"matrix_gradient_{step}", matrix.grad.clone()), (f"vector_gradient_{step}", vector.grad.clone())]
        optimizer.step()
        lines += [(f"matrix_{step}", matrix.detach().clone()), (f"vector_{step}", vector.detach().clone())]
    write("adamw.txt", lines)


transformer("grouped", 1)
transformer("tied_qk_norm", 2, qk_norm=True, tied=True, kv_heads=2)
adamw()
