"""A graph whose nodes have a text and a class, as the files that `longhaul graph import edges` reads. Needs numpy alone."""

import collections
import math
import pathlib
import re
import zlib

import numpy

WORD = re.compile(r"[a-z]{2,}")


def features_of(texts, columns):
    """A row for each text: its words fall into columns by their hash, rare words weigh more, and the row has length 1; zero without words."""
    words = [set(WORD.findall(text.lower())) for text in texts]
    texts_with = collections.Counter(word for row in words for word in row)
    place, weight = {}, {}
    for word, count in texts_with.items():
        code = zlib.crc32(word.encode())
        place[word] = code % columns
        # Half of the words are subtracted, so that words that share a column do not all look alike.
        weight[word] = math.log(len(texts) / count) * (1 if code >> 31 else -1)
    features = numpy.zeros((len(texts), columns), numpy.float32)
    for row, row_words in zip(features, words):
        for word in row_words:
            row[place[word]] += weight[word]
    lengths = numpy.linalg.norm(features, axis=1, keepdims=True)
    return features / numpy.where(lengths > 0, lengths, 1)


def labels_of(names, smallest, without=()):
    """Labels and the classes' names in order. A class needs `smallest` nodes; the nodes of others have the label -1."""
    counts = collections.Counter(names)
    classes = sorted(name for name, count in counts.items() if count >= smallest and name not in without)
    number = {name: i for i, name in enumerate(classes)}
    return numpy.array([number.get(name, -1) for name in names], numpy.int32), classes


def split_of(labels, seed):
    """Of each node 0, 1 or 2: to train on, to evaluate on while training, or at the end; 60, 20 and 20 % of the labelled ones. 3: unlabelled."""
    labelled = numpy.random.default_rng(seed).permutation(numpy.flatnonzero(labels >= 0))
    part = numpy.full(len(labels), 3, numpy.int8)
    train, valid = len(labelled) * 6 // 10, len(labelled) * 8 // 10
    part[labelled[:train]], part[labelled[train:valid]], part[labelled[valid:]] = 0, 1, 2
    return part


def write_graph(folder, ids, edges, features, labels, classes, part, nodes=None):
    """Writes the nodes for which `nodes` is true (None: all), in their order, and the edges among them. Returns a line that says what it wrote."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if nodes is not None:
        number = numpy.cumsum(nodes) - 1
        edges = number[edges[nodes[edges].all(axis=1)]]
        ids = [name for name, chosen in zip(ids, nodes) if chosen]
        features, labels, part = features[nodes], labels[nodes], part[nodes]
    numpy.save(folder / "edges.npy", numpy.ascontiguousarray(edges, numpy.int64))
    numpy.save(folder / "features.npy", features)
    numpy.save(folder / "labels.npy", labels)
    for i, name in enumerate(("train", "valid", "test")):
        numpy.save(folder / f"{name}.npy", numpy.flatnonzero(part == i))
    (folder / "ids.txt").write_text("".join(name + "\n" for name in ids), encoding="utf-8")
    (folder / "classes.txt").write_text("".join(name + "\n" for name in classes), encoding="utf-8")
    return f"{folder}: {len(ids):,} nodes, {len(edges):,} edges as written, {(labels >= 0).sum():,} nodes labelled, {len(classes)} classes"
