"""Link prediction with the real programs: two pools with disjoint graphs, whose model is exported and computes the same scores elsewhere."""

import json
import random

from cluster import ClusterTest, main, wait_until
from graph_tensors import product, read_tensors

GROUPS, COLUMNS = 4, 8
LINK_JOB = """
name: {name}
model: {{graph_sage: {{hidden: 16, fanout: [5, 5], dropout: 0.1, links: {{negatives: 2, eval_negatives: 200}}}}}}
data: {{pools: [{{pool: site-a, graph: {{path: {a}, access: {access}}}}}, {{pool: site-b, graph: {{path: {b}}}}}]}}
train: {{steps: {steps}, batch: 128, seed: 7}}
inner: {{adamw: {{lr: 0.01}}, schedule: {{warmup_steps: 5}}}}
sync: {{h: 10, tau: 1}}
pools: {{min: 2, names: [site-a, site-b]}}
evaluation: {{every_cycles: 2, batches: 3}}
"""


def write_groups(folder, seed, nodes=400, degree=12):
    """Nine of ten edges stay within a group; features tell the group."""
    folder.mkdir()
    chance = random.Random(seed)
    with open(folder / "edges.csv", "w") as edges:
        for node in range(nodes):
            for _ in range(degree // 2):
                other = chance.randrange(nodes // GROUPS) * GROUPS + (node % GROUPS if chance.random() < 0.9 else chance.randrange(GROUPS))
                if other != node:
                    edges.write(f"{node},{other}\n")
    with open(folder / "features.csv", "w") as features:
        for node in range(nodes):
            features.write(",".join(f"{chance.gauss(1.5 if column == node % GROUPS else 0, 1):.4f}" for column in range(COLUMNS)) + "\n")


def read_pairs(path):
    """The rows of a .npy array (., 2) of int64."""
    data = path.read_bytes()
    values = memoryview(data[10 + int.from_bytes(data[8:10], "little"):]).cast("q")
    return list(zip(values[::2], values[1::2]))


def rows_of_nodes(tensors, folder, edges):
    """What a model of two layers with the mean of neighbors gives for each node: the plain formula."""
    rows = [[float(value) for value in line.split(",")] for line in (folder / "features.csv").read_text().split()]
    neighbors = [set() for _ in rows]
    for source, target in edges:
        neighbors[target].add(source)
    for layer in range(2):
        own, others, bias = (tensors[f"layers.{layer}.{name}"] for name in ("fc_self.weight", "fc_neigh.weight", "fc_self.bias"))
        means = [[sum(rows[other][c] for other in of) / max(1, len(of)) for c in range(len(rows[0]))] for of in neighbors]
        rows = [[a + b + c for a, b, c in zip(product(own, row), product(others, mean), bias[1])] for row, mean in zip(rows, means)]
        if layer == 0:
            rows = [[max(0, value) for value in row] for row in rows]
    return rows


def auc_of(tensors, source, imported):
    """Over all targets of validation pairs that are not linked with the source."""
    valid = read_pairs(imported / "valid_pairs.npy")
    every = {tuple(map(int, line.split(","))) for line in (source / "edges.csv").read_text().split()}
    every |= {(b, a) for a, b in every}
    held_out = set(valid) | {(b, a) for a, b in valid}
    rows = rows_of_nodes(tensors, source, every - held_out)
    def score(a, b):
        return sum(x * y for x, y in zip(rows[a], rows[b]))
    shares = []
    for a, b in valid:
        negatives = [target for _, target in valid if target != a and (a, target) not in every]
        mine = score(a, b)
        shares.append(sum(score(a, negative) < mine for negative in negatives) / len(negatives))
    return sum(shares) / len(shares)


class GraphLinksTest(ClusterTest):
    BYTES_PER_SECOND = 400_000

    def import_graph(self, name, source, *flags, nodes=400):
        out = self.cluster.folder / name
        result = self.cluster.cli("graph", "import", "edges", "--nodes", str(nodes), "--edges", source / "edges.csv",
                                  "--features", source / "features.csv", "--reverse-edges", "--out", out, *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return out

    def graph(self, name, seed, *flags):
        source = self.cluster.folder / f"{name}-source"
        write_groups(source, seed)
        return self.import_graph(name, source, "--valid-share", "0.1", *flags)

    def submit(self, name="links", steps=120, sets=(), a=None, b=None, access="auto"):
        spec = self.cluster.folder / f"{name}.yaml"
        spec.write_text(LINK_JOB.format(name=name, steps=steps, a=a or self.a, b=b or self.b, access=access))
        return self.cluster.cli("submit", "-f", spec, *[flag for item in sets for flag in ("--set", item)], "-o", "json", timeout=120)

    def begin(self, name="links", ranks=1, **more):
        for pool in ("site-a", "site-b"):
            if pool not in self.cluster.workers:
                self.cluster.start_worker(pool, ranks)
        result = self.submit(name, **more)
        self.assertEqual(result.returncode, 0, result.stderr)

    def metrics(self, job):
        return {metric["name"]: metric["value"] for metric in job["eval_loss"]["metrics"]}

    def test_two_pools_learn_links_and_their_model_is_exported(self):
        self.a, self.b = self.graph("a", 1), self.graph("b", 2)
        self.begin(ranks=2)
        job = self.cluster.wait_job("links", seconds=200)
        self.assertLess(job["eval_loss"]["last"], job["eval_loss"]["first"])
        self.assertEqual(job["unit_name"], "pairs")
        metrics = self.metrics(job)
        self.assertGreater(metrics["auc"], 0.75)
        self.assertGreater(metrics["mrr"], 0.01)
        self.assertLessEqual(metrics["hits_1"], metrics["hits_3"])
        self.assertLessEqual(metrics["hits_3"], metrics["hits_10"])
        out = self.cluster.folder / "trained"
        exported = self.cluster.cli("export", "links", "--dtype", "fp32", "--out", out)
        self.assertEqual(exported.returncode, 0, exported.stderr)
        tensors = read_tensors(out / "model.safetensors")
        self.assertEqual(tensors["layers.1.fc_self.weight"][0], [16, 16])
        config = json.loads((out / "config.json").read_text())
        self.assertEqual(config["task"], "links")
        self.assertNotIn("classes", config)
        of_pools = [auc_of(tensors, self.cluster.folder / f"{name}-source", self.cluster.folder / name) for name in ("a", "b")]
        # The job's negatives are drawn.
        self.assertLess(min(abs(auc - metrics["auc"]) for auc in of_pools), 0.02, (of_pools, metrics))

    def test_a_killed_coordinator_and_other_ways_to_read_leave_the_result_as_it_is(self):
        self.a, self.b = self.graph("a", 1), self.graph("b", 2)
        def digests(name):
            return [fragment["digest"] for fragment in self.cluster.wait_job(name, seconds=200)["fragments"]]
        self.begin("undisturbed", steps=400)
        undisturbed = digests("undisturbed")
        self.begin("disturbed", steps=400, access="mapped")
        self.cluster.wait_step(60, "disturbed")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        self.assertEqual(digests("disturbed"), undisturbed)

    def test_pairs_of_nodes_with_random_features_are_not_told_apart(self):
        chance = random.Random(5)
        source = self.cluster.folder / "pairs-source"
        source.mkdir()
        nodes = 6000
        order = list(range(nodes))
        chance.shuffle(order)
        pairs = list(zip(order[::2], order[1::2]))
        # Each edge twice, once in the other direction.
        (source / "edges.csv").write_text("".join(f"{a},{b}\n{b},{a}\n" for a, b in pairs))
        (source / "valid.csv").write_text("".join(f"{a},{b}\n" for a, b in pairs[:1500]))
        (source / "features.csv").write_text("".join(",".join(f"{chance.gauss(0, 1):.3f}" for _ in range(4)) + "\n" for _ in range(nodes)))
        self.a = self.b = self.import_graph("pairs", source, "--valid-pairs", source / "valid.csv", nodes=nodes)
        self.begin("honest", steps=60)
        self.assertAlmostEqual(self.metrics(self.cluster.wait_job("honest", seconds=200))["auc"], 0.5, delta=0.02)
        self.a = self.b = self.import_graph("kept", source, "--valid-pairs", source / "valid.csv", "--keep-held-out", "--keep-duplicates",
                                            nodes=nodes)
        self.begin("excluding", steps=60)
        self.assertAlmostEqual(self.metrics(self.cluster.wait_job("excluding", seconds=200))["auc"], 0.5, delta=0.02)
        self.begin("leaking", steps=60, sets=["model.graph_sage.links.keep_targets=true"])
        self.assertGreater(self.metrics(self.cluster.wait_job("leaking", seconds=200))["auc"], 0.85)

    def test_a_pool_without_validation_pairs_is_refused(self):
        self.a, self.b = self.graph("a", 1), self.graph("b", 2)
        bare = self.cluster.folder / "train.csv"
        bare.write_text("0\n1\n")
        without = self.import_graph("without", self.cluster.folder / "a-source", "--train", bare)
        refused = self.submit("refused", a=without)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("has no validation pairs", refused.stdout + refused.stderr)
        self.begin("trained")
        self.cluster.wait_job("trained", seconds=200)
        # Where the job is submitted, the folder does not exist: it is renamed until the pool looks.
        hidden = self.cluster.folder / "hidden"
        without.rename(hidden)
        result = self.submit("other", a=without)
        self.assertEqual(result.returncode, 0, result.stderr)
        hidden.rename(without)
        wait_until(lambda: "no validation pairs" in json.dumps(self.cluster.job("other")), 60, "the refusal of the pool")
        self.assertIn("--valid-share", json.dumps(self.cluster.job("other")))


main()
