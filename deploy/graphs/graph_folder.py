"""A graph that `longhaul graph import` made, as numpy arrays, and what its text alone tells. Needs numpy alone."""

import json
import pathlib

import numpy


class GraphFolder:
    """The arrays of common/graph/graph_manifest.h, mapped. Those that the graph lacks are empty."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.manifest = json.loads((self.path / "manifest.json").read_text())
        for name in ("indptr", "indices", "features", "labels", "train", "valid", "test"):
            file = self.path / f"{name}.npy"
            setattr(self, name, numpy.load(file, mmap_mode="r") if file.exists() else numpy.zeros(0, numpy.int64))

    @property
    def classes(self):
        return self.manifest["classes"]


def own_rows_accuracy(graph, nodes, epochs=20, seed=1):
    """Share of `nodes` that a logistic regression names rightly which reads a node's own row alone, trained on the training nodes (Adam)."""
    random = numpy.random.default_rng(seed)
    rows, labels = numpy.asarray(graph.features[graph.train]), numpy.asarray(graph.labels[graph.train])
    weights = numpy.zeros((rows.shape[1] + 1, graph.classes), numpy.float32)
    mean, square = numpy.zeros_like(weights), numpy.zeros_like(weights)
    step, batch = 0, 512

    def with_one(some):
        return numpy.hstack([some, numpy.ones((len(some), 1), numpy.float32)])

    for _ in range(epochs):
        order = random.permutation(len(rows))
        for first in range(0, len(rows), batch):
            chosen = order[first:first + batch]
            inputs = with_one(rows[chosen])
            scores = inputs @ weights
            gradient = numpy.exp(scores - scores.max(axis=1, keepdims=True))
            gradient /= gradient.sum(axis=1, keepdims=True)
            gradient[numpy.arange(len(chosen)), labels[chosen]] -= 1
            gradient = inputs.T @ gradient / len(chosen)
            step += 1
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient * gradient - square)
            weights -= 0.02 * (mean / (1 - 0.9**step)) / (numpy.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return float(((with_one(graph.features[nodes]) @ weights).argmax(axis=1) == graph.labels[nodes]).mean())
