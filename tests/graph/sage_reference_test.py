"""The reference of GraphSAGE against sums written out, on small graphs."""

import json
import pathlib
import sys
import tempfile
import types
import unittest

from imports import import_graph

import graph_folder
import graph_sage
import numpy
import sage_reference
import text_graph
import torch

LONGHAUL = pathlib.Path(sys.argv.pop(1), "longhaul").resolve()


def planted(nodes=600, classes=3, columns=8, seed=5):
    """Neighbors are mostly of a node's own class; rows tell a little."""
    random = numpy.random.default_rng(seed)
    labels = random.integers(classes, size=nodes).astype(numpy.int32)
    same = [random.choice(numpy.flatnonzero(labels == label), 4) for label in labels]
    edges = numpy.array([(node, other) for node, others in enumerate(same) for other in others])
    features = random.normal(size=(nodes, columns)).astype(numpy.float32)
    features[numpy.arange(nodes), labels] += 1
    return [f"node-{i}" for i in range(nodes)], edges, features, labels, [f"class-{i}" for i in range(classes)], text_graph.split_of(labels, seed)


class SageReferenceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        made = pathlib.Path(folder.name, "made")
        text_graph.write_graph(made, *planted())
        import_graph(LONGHAUL, made, pathlib.Path(folder.name, "graph"))
        cls.graph = graph_folder.GraphFolder(pathlib.Path(folder.name, "graph"))
        torch.set_num_threads(1)

    def sources_of(self, node):
        return numpy.array(self.graph.indices[self.graph.indptr[node]:self.graph.indptr[node + 1]])

    def test_samples_are_neighbors_without_replacement(self):
        nodes = numpy.array([5, 17, 300])
        random = numpy.random.default_rng(1)
        seen = set()
        for _ in range(200):
            targets, sources = sage_reference.sample(self.graph, nodes, 3, random)
            for i, node in enumerate(nodes):
                drawn = sources[targets == i].tolist()
                self.assertEqual(len(set(drawn)), min(3, len(self.sources_of(node))))
                self.assertLessEqual(set(drawn), set(self.sources_of(node)))
                seen |= {(node, other) for other in drawn}
        self.assertEqual(seen, {(node, other) for node in nodes for other in self.sources_of(node)})
        targets, sources = sage_reference.sample(self.graph, nodes, -1, random)
        self.assertEqual(sources.tolist(), [other for node in nodes for other in self.sources_of(node)])

    def test_a_batch_with_all_neighbors_is_the_formula(self):
        torch.manual_seed(1)
        layers = sage_reference.layers_of(8, 6, 3, 2)
        rows = torch.from_numpy(numpy.array(self.graph.features))
        for i, layer in enumerate(layers):
            rows = torch.relu(rows) if i > 0 else rows
            rows = torch.stack([layer.fc_self.weight @ rows[node] + layer.fc_self.bias + layer.fc_neigh.weight @ rows[self.sources_of(node)].mean(dim=0)
                                for node in range(len(rows))])
        seeds = self.graph.test[:50]
        batch = sage_reference.forward(layers, *sage_reference.batch_of(self.graph, seeds, [-1, -1], numpy.random.default_rng(1)), dropout=0)
        torch.testing.assert_close(batch, rows[numpy.array(seeds)])
        for graph_sage.PART in (1, 100, 1 << 18):
            scores = torch.from_numpy(graph_sage.scores_of(self.graph, sage_reference.tensors_of(layers)))
            torch.testing.assert_close(scores, rows.detach())

    def test_the_first_fan_out_is_next_to_the_seeds(self):
        rows, hops = sage_reference.batch_of(self.graph, self.graph.train[:1], [2, 1], numpy.random.default_rng(1))
        # The layer next to the seeds is the last one: one seed with two sources, then at most one for each of these three.
        self.assertEqual([len(targets) for targets, _, _ in hops], [3, 2])
        self.assertEqual([count for _, _, count in hops], [3, 1])
        self.assertLessEqual(len(rows), 6)

    def test_a_node_without_neighbors_has_a_mean_of_zero(self):
        means = sage_reference.means_of(torch.ones(2, 3), torch.tensor([0, 0]), torch.tensor([0, 1]), 2)
        self.assertEqual(means.tolist(), [[1, 1, 1], [0, 0, 0]])
        lonely = types.SimpleNamespace(indptr=numpy.array([0, 0, 2, 2]), indices=numpy.array([0, 2]))
        means = graph_sage.means_of_sources(lonely, numpy.array([[1], [2], [4]], numpy.float32))
        self.assertEqual(means.tolist(), [[0], [2.5], [0]])

    def test_a_checkpoint_is_read_by_its_manifest(self):
        tensors = sage_reference.tensors_of(sage_reference.layers_of(8, 6, 3, 2))
        with tempfile.TemporaryDirectory() as folder:
            folder, parts, places = pathlib.Path(folder), [b"", b""], []
            for i, (name, values) in enumerate(tensors.items()):
                places.append({"name": name, "shape": [str(size) for size in values.shape], "file": f"fragment-00{i % 2}.f32",
                               "byteOffset": str(len(parts[i % 2])), "dtype": "F32"})
                parts[i % 2] += values.tobytes()
            for i, part in enumerate(parts):
                (folder / f"fragment-00{i}.f32").write_bytes(part)
            for model, taken in (({"aggregator": "MEAN", "norm": "NONE", "normalize": False}, True), ({"aggregator": "MAX", "norm": "NONE"}, False),
                                 ({"aggregator": "MEAN", "norm": "LAYER"}, False), (None, False)):
                (folder / "manifest.json").write_text(json.dumps({"model": {"graphSage": model} if model else {}, "tensors": places}))
                if taken:
                    read = graph_sage.tensors_of(folder)
                    self.assertEqual(read.keys(), tensors.keys())
                    self.assertTrue(all((read[name] == tensors[name]).all() for name in tensors))
                else:
                    with self.assertRaisesRegex(ValueError, "not a GraphSAGE with the aggregator MEAN"):
                        graph_sage.tensors_of(folder)

    def test_an_epoch_has_each_seed_once(self):
        batches = sage_reference.Batches(range(10), 4, 1)
        epoch = [batches.next() for _ in range(3)]
        self.assertEqual([len(batch) for batch in epoch], [4, 4, 2])
        self.assertEqual(sorted(numpy.concatenate(epoch)), list(range(10)))

    def test_neighbors_tell_more_than_the_own_row(self):
        torch.manual_seed(1)
        layers = sage_reference.layers_of(8, 16, 3, 2)
        options = types.SimpleNamespace(lr=1e-2, weight_decay=5e-4, batch=64, seed=1, fanout=[4, 4], dropout=0.2)
        sage_reference.train(layers, self.graph, options, steps=60)
        own = graph_folder.own_rows_accuracy(self.graph, self.graph.test)
        told = graph_sage.accuracies(self.graph, sage_reference.tensors_of(layers))
        self.assertGreater(own, 0.5, json.dumps(told))
        self.assertGreater(told["test"], own + 0.15)


unittest.main()
