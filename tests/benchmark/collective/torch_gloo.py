"""PyTorch's own Gloo collectives between processes of this machine: the reference of what ours, and an exchange, cost.

    $(deploy/setup.sh --print-venv)/bin/python tests/benchmark/collective/torch_gloo.py [--ranks 2] [--kib 65536] [--count 1]

Runs one collective, --count times in a row, for each line of standard input, which names it (all_reduce, all_gather,
reduce_scatter, all_to_all), and prints the seconds of one, until the input ends. KiB are those of the fp32 tensor that every rank ends with (all_reduce, all_gather,
all_to_all) or begins with (reduce_scatter). Loopback; a run lasts until every rank has its result.
"""

import argparse
import os
import sys
import tempfile
import time

import torch
import torch.distributed
import torch.multiprocessing


def operations(ranks, kib):
    whole, share = torch.ones(kib << 8), torch.ones((kib << 8) // ranks)
    other = torch.ones(kib << 8)
    return {"all_reduce": lambda: torch.distributed.all_reduce(whole),
            "all_gather": lambda: torch.distributed.all_gather_into_tensor(whole, share),
            "reduce_scatter": lambda: torch.distributed.reduce_scatter_tensor(share, whole),
            "all_to_all": lambda: torch.distributed.all_to_all_single(other, whole)}


def serve(rank, options, folder, demands, results):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=options.ranks)
    known = operations(options.ranks, options.kib)
    while name := demands[rank].get():
        torch.distributed.barrier()
        begin = time.perf_counter()
        for _ in range(options.count):
            known[name]()
        torch.distributed.barrier()
        if rank == 0:
            results.put((time.perf_counter() - begin) / options.count)
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--kib", type=int, default=64 << 10)
    parser.add_argument("--count", type=int, default=1)
    options = parser.parse_args()
    # Forked, the ranks have imported torch already.
    manager = torch.multiprocessing.get_context("fork")
    demands, results = [manager.SimpleQueue() for _ in range(options.ranks)], manager.SimpleQueue()

    def tell(name):
        for demand in demands:
            demand.put(name)

    with tempfile.TemporaryDirectory() as folder:
        processes = torch.multiprocessing.start_processes(serve, (options, folder, demands, results), options.ranks, join=False, start_method="fork")
        for line in sys.stdin:
            tell(line.strip())
            print(results.get(), flush=True)
        tell("")
        while not processes.join():
            pass


if __name__ == "__main__":
    main()
