"""What a checkpoint of a GraphSAGE job (mean aggregation, no norms) says of a graph's nodes. Needs numpy alone.

    PYTHON deploy/graphs/graph_sage.py CHECKPOINT FOLDER...

Prints, for each folder of `longhaul graph import`, the accuracy on its training, validation and test nodes. All neighbors are read."""

import json
import math
import pathlib
import sys

try:
    import graph_folder
    import numpy
except ModuleNotFoundError as error:
    sys.exit(f"graph_sage: no module {error.name}; run it by $(deploy/setup.sh --print-venv)/bin/python")

PART = 1 << 18  # Edges whose rows are in memory at the same time; those of one node always are.


def tensors_of(checkpoint):
    """name -> array. ValueError: of a model that is computed in another way."""
    folder = pathlib.Path(checkpoint)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    model = manifest["model"].get("graphSage")
    if model is None or model.get("aggregator") != "MEAN" or model.get("norm") != "NONE" or model.get("normalize"):
        raise ValueError("its model is not a GraphSAGE with the aggregator MEAN and without norms")
    tensors = {}
    for tensor in manifest["tensors"]:
        shape = [int(size) for size in tensor["shape"]]
        values = numpy.fromfile(folder / tensor["file"], "<f4", math.prod(shape), offset=int(tensor["byteOffset"]))
        tensors[tensor["name"]] = values.reshape(shape)
    return tensors


def means_of_sources(graph, rows):
    """For each node the mean of its sources' rows; zero without any."""
    means = numpy.zeros((len(graph.indptr) - 1, rows.shape[1]), numpy.float32)
    connected = numpy.flatnonzero(numpy.diff(graph.indptr))
    first = 0
    while first < len(connected):
        # As many nodes as have together at most PART edges, but at least one.
        limit = graph.indptr[connected[first]] + PART
        last = max(first + 1, int(numpy.searchsorted(graph.indptr[connected + 1], limit, side="right")))
        nodes = connected[first:last]
        begin, end = graph.indptr[nodes[0]], graph.indptr[nodes[-1] + 1]
        sums = numpy.add.reduceat(rows[graph.indices[begin:end]], graph.indptr[nodes] - begin, axis=0)
        means[nodes] = sums / (graph.indptr[nodes + 1] - graph.indptr[nodes])[:, None]
        first = last
    return means


def scores_of(graph, tensors):
    """[nodes, classes]. A layer is W_self h + W_neigh mean(h of the sources) + bias, with ReLU between layers."""
    rows, layer = graph.features, 0
    while f"layers.{layer}.fc_self.weight" in tensors:
        own, neighbors, bias = (tensors[f"layers.{layer}.{name}"] for name in ("fc_self.weight", "fc_neigh.weight", "fc_self.bias"))
        rows = numpy.maximum(rows, 0) if layer > 0 else rows
        # The mean of products is the product of the mean; the narrower one is summed.
        if len(own) < rows.shape[1]:
            means = means_of_sources(graph, rows @ neighbors.T)
        else:
            means = means_of_sources(graph, rows) @ neighbors.T
        rows = rows @ own.T + means + bias
        layer += 1
    return rows


def accuracies(graph, tensors):
    """Share of the nodes of each split whose class has the largest score."""
    right = scores_of(graph, tensors).argmax(axis=1) == graph.labels
    return {name: float(right[nodes].mean()) for name in ("train", "valid", "test") if len(nodes := getattr(graph, name))}


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: graph_sage.py CHECKPOINT FOLDER...")
    try:
        tensors = tensors_of(sys.argv[1])
    except (OSError, ValueError) as error:
        sys.exit(f"graph_sage: cannot read the checkpoint {sys.argv[1]}: {error}")
    for folder in sys.argv[2:]:
        told = accuracies(graph_folder.GraphFolder(folder), tensors)
        print(folder, *(f"{name} {value:.4f}" for name, value in told.items()))


if __name__ == "__main__":
    main()
