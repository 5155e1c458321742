#!/usr/bin/env python3
"""A Llama-style decoder in plain eager PyTorch on the CPU, with the fused AdamW: what engine_benchmark is compared with, whose
options it takes. Prints one row of JSON: tokens per second (the median over the measured steps), largest resident memory, page
faults of a step.

With --ranks it is one process of a data-parallel run: DistributedDataParallel over Gloo, its gradients in bf16, exchanged while
backward runs. First all ranks do the steps without an exchange, then with it. Rank 0 prints the median seconds of a step of both
(the slowest rank's), and the bytes that a step sends and receives at the network interface GLOO_SOCKET_IFNAME.
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import resource
import statistics
import time

import torch
import torch.nn.functional as F
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

VOCAB = 256


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text")
    for name, value in {"steps": 100, "threads": 1, "layers": 4, "dim": 96, "heads": 4, "ff": 256, "context": 128, "batch": 4}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--ranks", type=int, default=0)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--meet", metavar="HOST:PORT", help="where rank 0 listens")
    return parser.parse_args()


OPTIONS = parse()
WARMUP = min(10, OPTIONS.steps)
LAYERS, DIM, HEADS, FF, CONTEXT, BATCH = (getattr(OPTIONS, name) for name in ("layers", "dim", "heads", "ff", "context", "batch"))


def rotary_tables():
    width = DIM // HEADS
    frequencies = 10000.0 ** (-torch.arange(0, width, 2) / width)
    angles = torch.outer(torch.arange(CONTEXT), frequencies)
    both = torch.cat([angles, angles], -1)
    return both.cos(), both.sin()


def rotate(x, tables):
    first, second = x.chunk(2, -1)
    return x * tables[0] + torch.cat([-second, first], -1) * tables[1]


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(DIM))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def matrix(rows, columns):
    layer = nn.Linear(columns, rows, bias=False)
    nn.init.normal_(layer.weight, std=0.02)
    return layer


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (matrix(DIM, DIM) for _ in range(4))
        self.gate, self.up, self.down = matrix(FF, DIM), matrix(FF, DIM), matrix(DIM, FF)
        self.norm1, self.norm2 = RmsNorm(), RmsNorm()

    def forward(self, x, tables):
        n = self.norm1(x)
        q, k, v = (layer(n).view(BATCH, CONTEXT, HEADS, -1).transpose(1, 2) for layer in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(rotate(q, tables), rotate(k, tables), v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(BATCH, CONTEXT, DIM))
        n = self.norm2(x)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, DIM)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = RmsNorm(), matrix(VOCAB, DIM)

    def forward(self, tokens, targets, tables):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, tables)
        return F.cross_entropy(self.head(self.norm(x)).view(-1, VOCAB), targets.reshape(-1))


def learning_rate(step, peak=4e-3, warmup=100, steps=1000, final=0.05):
    if step < warmup:
        return peak * step / warmup
    return peak * (final + (1 - final) * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))))


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def autocast():
    return torch.autocast("cpu", torch.bfloat16) if OPTIONS.precision == "bf16" else contextlib.nullcontext()


class Training:
    def __init__(self, model, text):
        with open(text, "rb") as file:
            self.data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
        self.model, self.tables, self.step = model, rotary_tables(), 0
        self.optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.99), weight_decay=0.01, fused=True)

    def run(self, steps, context=contextlib.nullcontext):
        """The seconds of each step. `context` is around forward and backward."""
        times = []
        for _ in range(steps):
            self.step += 1
            start = time.perf_counter()
            places = torch.randint(len(self.data) - CONTEXT, (BATCH,))
            window = torch.stack([self.data[i : i + CONTEXT + 1] for i in places.tolist()])
            with context():
                with autocast():
                    loss = self.model(window[:, :-1], window[:, 1:], self.tables)
                loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.param_groups[0]["lr"] = learning_rate(self.step)
            self.optimizer.step()
            self.optimizer.zero_grad()
            loss.item()
            times.append(time.perf_counter() - start)
        return times


def alone():
    training = Training(Decoder(), OPTIONS.text)
    training.run(WARMUP)
    before = faults()
    times = training.run(OPTIONS.steps)
    print(json.dumps({
        "tokens_per_second": round(BATCH * CONTEXT / statistics.median(times), 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "faults_per_step": round((faults() - before) / OPTIONS.steps, 1),
    }))


def interface_bytes():
    counters = pathlib.Path("/sys/class/net", os.environ["GLOO_SOCKET_IFNAME"], "statistics")
    return [int((counters / name).read_text(encoding="ascii")) for name in ("tx_bytes", "rx_bytes")]


def slowest_median(times):
    seconds = torch.tensor(statistics.median(times), dtype=torch.float64)
    distributed.all_reduce(seconds, distributed.ReduceOp.MAX)
    return round(seconds.item(), 5)


def data_parallel():
    distributed.init_process_group("gloo", init_method=f"tcp://{OPTIONS.meet}", rank=OPTIONS.rank, world_size=OPTIONS.ranks)
    model = nn.parallel.DistributedDataParallel(Decoder())
    model.register_comm_hook(None, bf16_compress_hook)
    training = Training(model, OPTIONS.text)
    training.run(WARMUP, model.no_sync)
    local = training.run(OPTIONS.steps, model.no_sync)
    training.run(2)
    before = interface_bytes()
    together = training.run(OPTIONS.steps)
    sent, received = ((after - at) / OPTIONS.steps for after, at in zip(interface_bytes(), before, strict=True))
    found = {"local_seconds": slowest_median(local), "seconds": slowest_median(together), "sent_bytes": sent, "received_bytes": received,
             "parameters": sum(p.numel() for p in model.parameters())}
    if OPTIONS.rank == 0:
        print(json.dumps(found))
    distributed.destroy_process_group()


def main():
    torch.set_num_threads(OPTIONS.threads)
    torch.manual_seed(OPTIONS.rank)
    data_parallel() if OPTIONS.ranks else alone()


main()
