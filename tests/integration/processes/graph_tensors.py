"""Exported graph models, without PyTorch; and what `longhaul graph predict` says of a graph."""

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
