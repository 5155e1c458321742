"""Exported graph models, without PyTorch; what `longhaul graph predict` says of a graph; and what is shown of evaluations."""

import array
import json
import os
import struct
import subprocess

from cluster import BIN


def read_tensors(path):
    """Name to (shape, values) of a safetensors file of float32."""
    data = path.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: (tensor["shape"], array.array("f", data[begin + tensor["data_offsets"][0] : begin + tensor["data_offsets"][1]]))
            for name, tensor in header.items()}


def product(tensor, vector):
    (rows, columns), values = tensor
    return [sum(values[row * columns + column] * vector[column] for column in range(columns)) for row in range(rows)]


def predict(cluster, model, out, *flags):
    """`longhaul graph predict` to a folder of the cluster's: its result, and what it prints."""
    # Its words come first; the options of the connection may be among them.
    command = [BIN / "longhaul", "graph", "predict", model, *flags, "--out", cluster.folder / out, "-o", "json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                            env={**os.environ, "LONGHAUL_SERVER": cluster.address, "XDG_CACHE_HOME": str(cluster.folder / "cache")})
    return result, json.loads(result.stdout) if result.stdout else {}


def read_floats(path):
    """(shape as Python writes it, values) of a .npy array of float32."""
    data = path.read_bytes()
    header = data[:128].decode("latin-1")
    return header[header.index("'shape': ") + 9 : header.index(")") + 1], array.array("f", data[128:])


def check_pools_together(test, job, sizes):
    """What is shown of all pools follows from what each found on its own examples, of which `sizes` has how many: pool to split to number."""
    sites = {p["pool"]: {m["name"]: m["value"] for m in p["outer_evaluation"]} for p in job["pools"]}
    loss = job["eval_loss"]
    together, worst, means = ({m["name"]: m["value"] for m in loss[part]} for part in ("metrics", "worst_pool", "mean_of_pools"))
    test.assertEqual(loss["pools"], len(sites))
    test.assertEqual(together["test_examples"], sum(size["test"] for size in sizes.values()))
    for name in sorted(set().union(*sites.values()) - {"test_examples"}):
        of = [sites[pool][name] for pool in sites]
        weights = [sizes[pool]["test" if name.startswith("test_") else "valid"] for pool in sites]
        test.assertAlmostEqual(together[name], sum(a * b for a, b in zip(of, weights)) / sum(weights), places=9)
        test.assertAlmostEqual(worst[name], (max if name.endswith("loss") else min)(of), places=9)
        test.assertAlmostEqual(means[name], sum(of) / len(of), places=9)
