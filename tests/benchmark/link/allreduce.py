"""PyTorch's own Gloo all-reduce between two processes of this machine: the reference of what an exchange costs.

    $(deploy/setup.sh --print-venv)/bin/python tests/benchmark/link/allreduce.py [--mib 256] [--repetitions 7]

Prints one line of JSON: {"seconds": median, "mib": ..., "repetitions": ..., "torch": version}. The tensor is fp32, summed in
place over loopback; a run lasts until the slower process has its result. The first, which connects, does not count.
"""

import argparse
import json
import os
import statistics
import tempfile
import time

import torch
import torch.distributed
import torch.multiprocessing

PROCESSES = 2


def reduce_again_and_again(rank, options, folder):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=PROCESSES)
    tensor = torch.full((options.mib << 18,), float(rank))
    seconds = []
    for _ in range(1 + options.repetitions):
        torch.distributed.barrier()
        begin = time.perf_counter()
        torch.distributed.all_reduce(tensor)
        torch.distributed.barrier()
        seconds.append(time.perf_counter() - begin)
    if rank == 0:
        print(json.dumps({"seconds": statistics.median(seconds[1:]), "mib": options.mib, "repetitions": options.repetitions,
                          "torch": torch.__version__}))
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--repetitions", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(reduce_again_and_again, (options, folder), PROCESSES)


if __name__ == "__main__":
    main()
