"""Jobs on graphs, with the real programs: two pools with disjoint planted graphs."""

import json
import random

from cluster import ClusterTest, kill, main, wait_until
from graph_tensors import product, read_tensors

CLASSES, COLUMNS = 4, 8
GRAPH_JOB = """
name: {name}
model: {{graph_sage: {{hidden: 32, fanout: [5, 5], dropout: 0.2}}}}
data: {{pools: [{{pool: site-a, graph: {{path: {a}, access: {access}}}}}, {{pool: site-b, graph: {{path: {b}}}}}]}}
train: {{steps: {steps}, batch: 64, seed: 7}}
inner: {{adamw: {{lr: 0.01}}, schedule: {{warmup_steps: 5}}}}
sync: {{h: 10, tau: 1}}
pools: {{min: 2, names: [site-a, site-b]}}
evaluation: {{every_cycles: 2, batches: 2}}
"""


def write_planted(folder, seed, nodes=400, degree=8):
    """A node's own row tells little of its class, those of its neighbors much: 85 % of the edges stay within a class."""
    folder.mkdir()
    chance = random.Random(seed)
    labels = [node % CLASSES for node in range(nodes)]
    with open(folder / "edges.csv", "w") as edges:
        for node in range(nodes):
            for _ in range(degree // 2):
                other = chance.randrange(nodes // CLASSES) * CLASSES + (labels[node] if chance.random() < 0.85 else chance.randrange(CLASSES))
                if other != node:
                    edges.write(f"{node},{other}\n")
    with open(folder / "features.csv", "w") as features:
        for label in labels:
            features.write(",".join(f"{chance.gauss(0.8 if column == label else 0, 1):.4f}" for column in range(COLUMNS)) + "\n")
    (folder / "labels.csv").write_text("".join(f"{label}\n" for label in labels))
    order = list(range(nodes))
    chance.shuffle(order)
    for name, part in (("train", order[: nodes // 2]), ("valid", order[nodes // 2 : nodes * 3 // 4]), ("test", order[nodes * 3 // 4 :])):
        (folder / f"{name}.csv").write_text("".join(f"{node}\n" for node in sorted(part)))


def accuracy_of(tensors, folder):
    """The share of validation nodes whose class a model of two layers with the mean of neighbors finds: the plain formula."""
    rows = [[float(value) for value in line.split(",")] for line in (folder / "features.csv").read_text().split()]
    labels = [int(line) for line in (folder / "labels.csv").read_text().split()]
    pairs = [tuple(map(int, line.split(","))) for line in (folder / "edges.csv").read_text().split()]
    neighbors = [set() for _ in rows]
    for source, target in pairs:
        neighbors[target].add(source)
        neighbors[source].add(target)
    for layer in range(2):
        own, others, bias = (tensors[f"layers.{layer}.{name}"] for name in ("fc_self.weight", "fc_neigh.weight", "fc_self.bias"))
        means = [[sum(rows[other][c] for other in of) / max(1, len(of)) for c in range(len(rows[0]))] for of in neighbors]
        rows = [[a + b + c for a, b, c in zip(product(own, row), product(others, mean), bias[1])] for row, mean in zip(rows, means)]
        if layer == 0:
            rows = [[max(0, value) for value in row] for row in rows]
    valid = [int(line) for line in (folder / "valid.csv").read_text().split()]
    return sum(rows[node].index(max(rows[node])) == labels[node] for node in valid) / len(valid)


class GraphsTest(ClusterTest):
    BYTES_PER_SECOND = 400_000

    def graph(self, name, seed, *flags, nodes=400):
        """The folder of an imported graph."""
        source = self.cluster.folder / f"{name}-source"
        write_planted(source, seed, nodes)
        files = [item for part in ("edges", "features", "labels", "train", "valid", "test") for item in (f"--{part}", source / f"{part}.csv")]
        out = self.cluster.folder / name
        result = self.cluster.cli("graph", "import", "edges", "--nodes", str(nodes), *files, "--reverse-edges", "--out", out, *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return out

    def graphs(self):
        self.a, self.b = self.graph("a", 1), self.graph("b", 2)

    def submit(self, name="graph", steps=120, sets=(), a=None, b=None, access="auto"):
        spec = self.cluster.folder / f"{name}.yaml"
        spec.write_text(GRAPH_JOB.format(name=name, steps=steps, a=a or self.a, b=b or self.b, access=access))
        return self.cluster.cli("submit", "-f", spec, *[flag for item in sets for flag in ("--set", item)], "-o", "json", timeout=120)

    def begin(self, name="graph", ranks=1, **more):
        for pool in ("site-a", "site-b"):
            if pool not in self.cluster.workers:
                self.cluster.start_worker(pool, ranks)
        result = self.submit(name, **more)
        self.assertEqual(result.returncode, 0, result.stderr)

    def metrics(self, job):
        return {metric["name"]: metric["value"] for metric in job["eval_loss"]["metrics"]}

    def digests(self, name="graph"):
        job = self.cluster.wait_job(name, seconds=200)
        self.assertGreater(self.metrics(job)["accuracy"], 0.8)
        return [fragment["digest"] for fragment in job["fragments"]]

    def test_two_pools_train_and_their_model_is_exported(self):
        self.graphs()
        self.begin(ranks=2)
        job = self.cluster.wait_job("graph", seconds=200)
        self.assertLess(job["eval_loss"]["last"], 0.7 * job["eval_loss"]["first"])
        self.assertGreater(self.metrics(job)["accuracy"], 0.8)
        self.assertEqual(job["unit_name"], "nodes")
        out = self.cluster.folder / "trained"
        exported = self.cluster.cli("export", "graph", "--dtype", "fp32", "--out", out)
        self.assertEqual(exported.returncode, 0, exported.stderr)
        tensors = read_tensors(out / "model.safetensors")
        self.assertEqual({name: shape for name, (shape, _) in tensors.items()}, {
            "layers.0.fc_self.weight": [32, COLUMNS], "layers.0.fc_neigh.weight": [32, COLUMNS], "layers.0.fc_self.bias": [32],
            "layers.1.fc_self.weight": [CLASSES, 32], "layers.1.fc_neigh.weight": [CLASSES, 32], "layers.1.fc_self.bias": [CLASSES]})
        of_pools = [accuracy_of(tensors, self.cluster.folder / f"{name}-source") for name in ("a", "b")]
        # A node whose two best classes are nearly equal may fall to either.
        self.assertLess(min(abs(accuracy - self.metrics(job)["accuracy"]) for accuracy in of_pools), 0.011, of_pools)
        self.assertEqual(json.loads((out / "config.json").read_text())["fanout"], [5, 5])

    def test_a_killed_coordinator_and_other_ways_to_read_leave_the_result_as_it_is(self):
        self.graphs()
        self.begin("undisturbed", steps=600)
        undisturbed = self.digests("undisturbed")
        self.begin("disturbed", steps=600, access="mapped")
        self.cluster.wait_step(100, "disturbed")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        self.assertEqual(self.digests("disturbed"), undisturbed)

    def test_a_killed_rank_brings_its_pool_back(self):
        self.graphs()
        self.begin(ranks=2, steps=600)
        self.cluster.wait_step(100, "graph")
        kill(self.cluster.ranks_of("site-b")[1])
        self.digests()
        self.assertGreater(self.cluster.log("site-b").count("starting 2 ranks"), 1)

    def test_a_site_with_three_training_nodes_and_ranks_without_any_train_to_the_end(self):
        self.graphs()
        train = self.cluster.folder / "b-source" / "train.csv"
        train.write_text("".join(train.read_text().splitlines(keepends=True)[:3]))
        files = [item for part in ("edges", "features", "labels", "train", "valid") for item in (f"--{part}", train.parent / f"{part}.csv")]
        few = self.cluster.folder / "few"
        result = self.cluster.cli("graph", "import", "edges", "--nodes", "400", *files, "--reverse-edges", "--out", few)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.begin(ranks=2, steps=40, b=few)
        self.assertEqual(self.cluster.wait_job("graph", seconds=200)["state"], "COMPLETED")
        # A batch of fewer nodes than a pool has ranks.
        self.begin("single", ranks=2, steps=40, b=few, sets=["train.batch=1"])
        self.assertEqual(self.cluster.wait_job("single", seconds=200)["state"], "COMPLETED")

    def test_what_does_not_go_is_refused_at_submit(self):
        self.graphs()
        names = self.cluster.folder / "names.txt"
        names.write_text("".join(f"class-{i}\n" for i in range(CLASSES)))
        named = self.graph("named", 3, "--class-names", names)
        for more, words in ((dict(b=named), ["data.pools[1].graph", "schema"]),
                            (dict(sets=["model.graph_sage.columns=5"]), ["model.graph_sage.columns", "found 5"]),
                            (dict(sets=["model.graph_sage.links={}"]), ["data.pools[0].graph", "has no validation pairs", "--valid-pairs"]),
                            (dict(sets=["model.graph_sage={links: {}, classes: 4}"]), ["model.graph_sage.classes", "which have no classes"]),
                            (dict(sets=["train.device=cuda"]), ["train.device", "cpu"]),
                            (dict(sets=["data={text: {path: x}}"]), ["model.graph_sage reads a graph"])):
            refused = self.submit(**more)
            self.assertNotEqual(refused.returncode, 0)
            for word in words:
                self.assertIn(word, refused.stdout + refused.stderr)

    def test_a_pool_with_another_graph_is_set_aside_with_the_difference(self):
        self.graphs()
        names = self.cluster.folder / "names.txt"
        names.write_text("".join(f"class-{i}\n" for i in range(CLASSES)))
        named = self.graph("named", 3, "--class-names", names)
        self.begin()
        self.cluster.wait_job("graph", seconds=200)
        # Where the job is submitted, the folder does not exist: it is renamed until the pool looks.
        hidden = self.cluster.folder / "hidden"
        named.rename(hidden)
        self.assertEqual(self.submit("other", b=named).returncode, 0)
        hidden.rename(named)
        def told():
            job = self.cluster.job("other")
            return any("other names" in json.dumps(pool) for pool in job["pools"]) or "other names" in json.dumps(job)
        wait_until(told, 60, "the refusal of the pool")
        text = json.dumps(self.cluster.job("other"))
        self.assertIn("data.pools[1].graph", text)


main()
