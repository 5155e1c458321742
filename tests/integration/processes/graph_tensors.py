"""Exported graph models, without PyTorch."""

import array
import json
import struct


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
