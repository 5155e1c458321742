"""PyTorch's own Gloo all-reduce between two processes of this machine: the reference of what an exchange costs.

    $(deploy/setup.sh --print-venv)/bin/python tests/benchmark/link/allreduce.py [--mib 256] [--repetitions 7] [--on-demand]

Prints one line of JSON: {"seconds": median, "mib": ..., "repetitions": ..., "torch": version}. The tensor is fp32, summed in
place over loopback; a run lasts until the slower process has its result. The first, which connects, does not count. With
--on-demand there is one run for each line of standard input, whose seconds are printed, until it ends.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed
import torch.multiprocessing

PROCESSES = 2


def reduce_on_demand(rank, options, folder, demands, results):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=PROCESSES)
    tensor = torch.full((options.mib << 18,), float(rank))
    while demands[rank].get():
        torch.distributed.barrier()
        begin = time.perf_counter()
        torch.distributed.all_reduce(tensor)
        torch.distributed.barrier()
        if rank == 0:
            results.put(time.perf_counter() - begin)
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--on-demand", action="store_true")
    options = parser.parse_args()
    manager = torch.multiprocessing.get_context("spawn")
    demands, results = [manager.SimpleQueue() for _ in range(PROCESSES)], manager.SimpleQueue()

    def tell(go_on):
        for demand in demands:
            demand.put(go_on)

    def seconds():
        tell(True)
        return results.get()

    with tempfile.TemporaryDirectory() as folder:
        processes = torch.multiprocessing.spawn(reduce_on_demand, (options, folder, demands, results), PROCESSES, join=False)
        if options.on_demand:
            for _ in sys.stdin:
                print(seconds(), flush=True)
        else:
            runs = [seconds() for _ in range(1 + options.repetitions)]
            print(json.dumps({"seconds": statistics.median(runs[1:]), "mib": options.mib, "repetitions": options.repetitions,
                              "torch": torch.__version__}))
        tell(False)
        while not processes.join():
            pass


if __name__ == "__main__":
    main()
