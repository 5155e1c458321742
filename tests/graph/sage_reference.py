"""GraphSAGE in PyTorch and numpy alone, to compare accuracies with: reads a folder of `longhaul graph import`, samples neighbors, prints accuracies.

    PYTHON tests/graph/sage_reference.py FOLDER [--epochs 20] [--hidden 128] [--fanout 15,10]

A layer is h' = W_self h + W_neigh mean(h of the sources) + b; between layers ReLU and dropout. The optimizer is AdamW. Neighbors are drawn without
replacement. Evaluation reads all neighbors, layer by layer."""

import argparse
import json
import pathlib
import sys
import time

import numpy
import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "deploy/graphs"))

import graph_folder
import graph_sage


class Layer(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc_self = torch.nn.Linear(inputs, outputs)
        self.fc_neigh = torch.nn.Linear(inputs, outputs, bias=False)

    def forward(self, rows, means):
        return self.fc_self(rows) + self.fc_neigh(means)


def layers_of(columns, hidden, classes, count):
    widths = [columns, *[hidden] * (count - 1), classes]
    return torch.nn.ModuleList(Layer(*pair) for pair in zip(widths, widths[1:]))


def sample(graph, nodes, fanout, random):
    """(targets, sources) of the sampled edges: places in `nodes`, and nodes. Up to `fanout` of each node, without replacement; -1: all."""
    begin, degrees = graph.indptr[nodes], graph.indptr[nodes + 1] - graph.indptr[nodes]
    targets = numpy.repeat(numpy.arange(len(nodes)), degrees)
    first = numpy.cumsum(degrees) - degrees
    edges = numpy.arange(len(targets)) + numpy.repeat(begin - first, degrees)
    if fanout >= 0:
        # Those with the smallest of random numbers, for each node.
        order = numpy.lexsort((random.random(len(edges)), targets))
        kept = order[numpy.arange(len(order)) - numpy.repeat(first, degrees) < fanout]
        targets, edges = targets[kept], edges[kept]
    return targets, graph.indices[edges].astype(numpy.int64)


def means_of(rows, targets, places, count):
    """The mean of the rows at `places` for each of `count` targets; zero without any."""
    sums = torch.zeros(count, rows.shape[1]).index_add_(0, targets, rows[places])
    return sums / torch.bincount(targets, minlength=count).clamp(min=1)[:, None]


def batch_of(graph, seeds, fanout, random):
    """Rows of all nodes that a batch reads, and for each layer, from the first one: the edges, and how many nodes it computes."""
    nodes, hops = numpy.asarray(seeds), []
    for limit in fanout:
        targets, sources = sample(graph, nodes, limit, random)
        new = numpy.setdiff1d(sources, nodes)
        wider = numpy.concatenate([nodes, new])
        order = numpy.argsort(wider)
        places = order[numpy.searchsorted(wider, sources, sorter=order)]
        hops.append((torch.from_numpy(targets), torch.from_numpy(places), len(nodes)))
        nodes = wider
    return torch.from_numpy(graph.features[nodes]), hops[::-1]


def forward(layers, rows, hops, dropout):
    for i, (layer, (targets, places, count)) in enumerate(zip(layers, hops)):
        if i > 0:
            rows = torch.nn.functional.dropout(torch.relu(rows), dropout)
        rows = layer(rows[:count], means_of(rows, targets, places, count))
    return rows


def tensors_of(layers):
    """With the names that a job's checkpoint gives them."""
    return {f"layers.{name}": value.detach().numpy() for name, value in layers.state_dict().items()}


class Batches:
    """Seeds of each step, in epochs; the last batch of an epoch is smaller."""

    def __init__(self, nodes, size, seed):
        self.nodes, self.size, self.random, self.left = numpy.asarray(nodes), size, numpy.random.default_rng(seed), []

    def next(self):
        if len(self.left) == 0:
            self.left = self.random.permutation(self.nodes)
        seeds, self.left = self.left[:self.size], self.left[self.size:]
        return seeds


def train(layers, graph, options, steps, note=lambda step: None):
    optimizer = torch.optim.AdamW(layers.parameters(), lr=options.lr, weight_decay=options.weight_decay)
    batches = Batches(graph.train, options.batch, options.seed)
    for step in range(1, steps + 1):
        seeds = batches.next()
        rows, hops = batch_of(graph, seeds, options.fanout, batches.random)
        labels = torch.from_numpy(graph.labels[seeds].astype(numpy.int64))
        loss = torch.nn.functional.cross_entropy(forward(layers, rows, hops, options.dropout), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        note(step)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", help="a folder that `longhaul graph import` made")
    parser.add_argument("--epochs", type=float, default=20)
    parser.add_argument("--steps", type=int, help="instead of epochs")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--fanout", type=lambda text: [int(part) for part in text.split(",")], default=[15, 10], help="the first is next to the seeds")
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--abroad", action="append", default=[], help="another folder, to evaluate on as well; may be repeated")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    graph = graph_folder.GraphFolder(options.folder)
    layers = layers_of(graph.features.shape[1], options.hidden, graph.classes, len(options.fanout))
    epoch = -(-len(graph.train) // options.batch)
    steps = options.steps or int(options.epochs * epoch)
    began = time.monotonic()

    def note(step):
        if step % (5 * epoch) == 0:
            print(f"step {step}: {json.dumps(graph_sage.accuracies(graph, tensors_of(layers)))}", file=sys.stderr)

    train(layers, graph, options, steps, note)
    seconds = time.monotonic() - began
    for path in [options.folder, *options.abroad]:
        other = graph_folder.GraphFolder(path)
        print(json.dumps({"folder": path, "steps": steps, "seconds": round(seconds, 1), "parameters": sum(p.numel() for p in layers.parameters()),
                          "own_rows_test": graph_folder.own_rows_accuracy(other, other.test), **graph_sage.accuracies(other, tensors_of(layers))}))


if __name__ == "__main__":
    main()
