"""Link prediction with the real programs: two pools with disjoint graphs, whose model is exported and computes the same scores elsewhere."""

import csv
import json
import math
import random

from cluster import ClusterTest, main, wait_until
from graph_tensors import check_pools_together, predict, product, read_floats, read_tensors

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


def edges_of(source):
    """In both directions."""
    edges = {tuple(map(int, line.split(","))) for line in (source / "edges.csv").read_text().split()}
    return edges | {(b, a) for a, b in edges}


def rows_of_graph(tensors, source, imported):
    """Of a graph without its validation and test pairs."""
    held_out = set(read_pairs(imported / "valid_pairs.npy")) | set(read_pairs(imported / "test_pairs.npy"))
    return rows_of_nodes(tensors, source, edges_of(source) - held_out - {(b, a) for a, b in held_out})


def auc_of(tensors, source, imported, split):
    """Over all targets of the split's pairs that are not linked with the source."""
    pairs, every = read_pairs(imported / f"{split}_pairs.npy"), edges_of(source)
    rows = rows_of_graph(tensors, source, imported)
    shares = []
    for a, b in pairs:
        negatives = [target for _, target in pairs if target != a and (a, target) not in every]
        mine = score(rows, a, b)
        shares.append(sum(score(rows, a, negative) < mine for negative in negatives) / len(negatives))
    return sum(shares) / len(shares)


def score(rows, a, b):
    return sum(x * y for x, y in zip(rows[a], rows[b]))


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
        return self.import_graph(name, source, "--valid-share", "0.1", "--test-share", "0.1", *flags)

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
        out = self.cluster.folder / "trained"
        exported = self.cluster.cli("export", "links", "--dtype", "fp32", "--out", out)
        self.assertEqual(exported.returncode, 0, exported.stderr)
        tensors = read_tensors(out / "model.safetensors")
        self.assertEqual(tensors["layers.1.fc_self.weight"][0], [16, 16])
        config = json.loads((out / "config.json").read_text())
        self.assertEqual(config["task"], "links")
        self.assertNotIn("classes", config)
        self.check_evaluations(job, tensors)

    def check_evaluations(self, job, tensors):
        """Validation pairs of each pool and, at the end, its test pairs; and what is shown of all pools."""
        names = {"loss", "auc", "mrr", "hits_1", "hits_3", "hits_10"}
        names |= {f"test_{name}" for name in names}
        sites = {p["pool"]: {m["name"]: m["value"] for m in p["outer_evaluation"]} for p in job["pools"]}
        self.assertEqual(sorted(sites), ["site-a", "site-b"])
        sizes = {}
        for pool, name in (("site-a", "a"), ("site-b", "b")):
            imported = self.cluster.folder / name
            sizes[pool] = {split: len(read_pairs(imported / f"{split}_pairs.npy")) for split in ("valid", "test")}
            self.assertEqual(set(sites[pool]), names | {"test_examples"})
            self.assertEqual(sites[pool]["test_examples"], sizes[pool]["test"])
            for split, prefix in (("valid", ""), ("test", "test_")):
                values = {name: sites[pool][prefix + name] for name in ("loss", "auc", "mrr", "hits_1", "hits_3", "hits_10")}
                # The job's negatives are drawn.
                self.assertAlmostEqual(values["auc"], auc_of(tensors, self.cluster.folder / f"{name}-source", imported, split), delta=0.02)
                self.assertGreater(values["auc"], 0.75)
                # 0.69 is what a model without knowledge has.
                self.assertTrue(0 < values["loss"] < 0.68, values)
                self.assertTrue(0 <= values["hits_1"] <= values["hits_3"] <= values["hits_10"] <= 1, values)
                # A pair of rank 1 counts 1, one of rank 2 or 3 at least 1/3, one of rank 4 to 10 at least 1/10; half ranks are ties.
                least = values["hits_1"] + (values["hits_3"] - values["hits_1"]) / 3 + (values["hits_10"] - values["hits_3"]) / 10
                self.assertTrue(least <= values["mrr"] + 1e-9 and values["mrr"] < 1, values)
        self.assertEqual(set(self.metrics(job)), names | {"test_examples"})
        check_pools_together(self, job, sizes)
        for p in job["pools"]:
            self.assertEqual({m["name"] for m in p["evaluation"]}, {name for name in names if not name.startswith("test_")})
        self.assertIn("test auc", self.cluster.cli("get", "links").stdout)

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

    def test_scores_of_pairs_are_those_of_the_exported_model_with_the_users_ids(self):
        ids = self.cluster.folder / "ids.txt"
        ids.write_text("".join(f"node,{i}\n" for i in range(400)))
        numbers = self.cluster.folder / "numbers.txt"
        numbers.write_text("".join(f"{1000 - i}\n" for i in range(400)))
        self.a, self.b = self.graph("a", 1, "--ids", ids), self.graph("b", 2, "--ids", numbers)
        self.begin(steps=60)
        self.cluster.wait_job("links", seconds=200)
        out, checkpoint = self.cluster.folder / "trained", self.cluster.folder / "checkpoint"
        self.assertEqual(self.cluster.cli("export", "links", "--dtype", "fp32", "--out", out).returncode, 0)
        self.assertEqual(self.cluster.cli("download", "links", "--out", checkpoint).returncode, 0)
        plain = {name: rows_of_graph(read_tensors(out / "model.safetensors"), self.cluster.folder / f"{name}-source", self.cluster.folder / name)
                 for name in ("a", "b")}
        pairs = [(0, 1), (399, 3), (7, 7), (3, 399), *sorted(edges_of(self.cluster.folder / "a-source"))[:20]]
        quoted = self.cluster.folder / "quoted.csv"
        quoted.write_text("".join(f'"node,{a}","node,{b}"\n' for a, b in pairs))
        self.check_prediction("links", self.a, pairs, plain["a"], [f"node,{i}" for i in range(400)], "--pairs", quoted)
        own = self.cluster.folder / "own.csv"
        own.write_text("".join(f"{1000 - a},{1000 - b}\n" for a, b in pairs))
        self.check_prediction(checkpoint, self.b, pairs, plain["b"], [str(1000 - i) for i in range(400)], "--pairs", own)
        test = read_pairs(self.b / "test_pairs.npy")
        answer = self.check_prediction(checkpoint, self.b, test, plain["b"], [str(1000 - i) for i in range(400)], "--split", "test")
        self.assertEqual((answer["split"], answer["linked"]), ("test", 0))
        result, answer = predict(self.cluster, checkpoint, "rows", "--graph", self.b)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((answer["data"]["pairs"], answer["data"]["files"]), (0, ["ids.csv", "embeddings.npy"]))
        wrong = self.cluster.folder / "wrong.csv"
        for text, flags, words in (("1000,1000\n1000,600\n", (), [f"{wrong}: line 2, column 2: the graph has no node \"600\"", "hint: give ids"]),
                                   ("1000\n", (), ["1 column, not two", "hint: give pairs"]),
                                   ("", (), ["no pair"]),
                                   ("1000,1000\n", ("--split", "test"), ["--split", "--pairs"])):
            wrong.write_text(text)
            result, _ = predict(self.cluster, checkpoint, "refused", "--graph", self.b, "--pairs", wrong, *flags)
            self.assertEqual(result.returncode, 4, result.stderr)
            for word in words:
                self.assertIn(word, result.stderr)
            self.assertFalse((self.cluster.folder / "refused").exists())
        result, _ = predict(self.cluster, checkpoint, "refused", "--graph", self.b, "--pairs", "")
        self.assertEqual(result.returncode, 4, result.stderr)
        result, _ = predict(self.cluster, checkpoint, "refused", "--graph", self.b, "--split", "train")
        self.assertIn("it has no train pairs", result.stderr)

    def check_prediction(self, model, graph, pairs, rows, ids, *flags):
        out = f"predicted-{graph.name}-{flags[0].strip('-')}"
        result, answer = predict(self.cluster, model, out, "--graph", graph, *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = answer["data"]
        self.assertEqual(answer["files"], ["ids.csv", "embeddings.npy", "predictions.csv", "scores.npy"])
        self.assertEqual((answer["job"], answer["nodes"], answer["pairs"]), ("links", len(ids), len(pairs)))
        held_out = {pair for split in ("valid", "test") for pair in read_pairs(graph / f"{split}_pairs.npy")}
        left = edges_of(self.cluster.folder / f"{graph.name}-source") - held_out - {(b, a) for a, b in held_out}
        self.assertEqual(answer["linked"], sum(pair in left for pair in pairs))
        folder = self.cluster.folder / out
        with open(folder / "ids.csv", newline="", encoding="utf-8") as file:
            self.assertEqual([row["id"] for row in csv.DictReader(file)], ids)
        shape, embeddings = read_floats(folder / "embeddings.npy")
        self.assertEqual(shape, f"({len(ids)}, {len(rows[0])})")
        for mine, plain in zip(embeddings, (value for row in rows for value in row)):
            self.assertAlmostEqual(mine, plain, delta=1e-4 * max(1, abs(plain)))
        with open(folder / "predictions.csv", newline="", encoding="utf-8") as file:
            found = list(csv.DictReader(file))
        shape, scores = read_floats(folder / "scores.npy")
        self.assertEqual((len(found), shape), (len(pairs), f"({len(pairs)},)"))
        for row, value, (a, b) in zip(found, scores, pairs):
            self.assertEqual((row["source"], row["target"]), (ids[a], ids[b]))
            plain = score(rows, a, b)
            self.assertAlmostEqual(value, plain, delta=1e-3 * max(1, abs(plain)))
            self.assertAlmostEqual(float(row["score"]), value, places=6)
            self.assertAlmostEqual(float(row["probability"]), 1 / (1 + math.exp(-plain)), places=3)
        return answer

    def test_sites_with_and_without_classes_predict_links_together(self):
        self.a = self.graph("a", 1)
        labels, names = self.cluster.folder / "labels.csv", self.cluster.folder / "names.txt"
        labels.write_text("".join(f"{node % GROUPS}\n" for node in range(400)))
        names.write_text("".join(f"class {i}\n" for i in range(GROUPS)))
        self.b = self.graph("b", 2, "--labels", labels, "--class-names", names)
        found = {name: json.loads(self.cluster.cli("graph", "info", self.cluster.folder / name, "-o", "json").stdout)["data"] for name in "ab"}
        self.assertNotEqual(found["a"]["schema_digest"], found["b"]["schema_digest"])
        self.assertEqual(found["a"]["link_schema_digest"], found["b"]["link_schema_digest"])
        self.begin(steps=20)
        self.assertEqual(self.cluster.wait_job("links", seconds=200)["state"], "COMPLETED")
        # By hand, as either site's folder is called.
        for name in ("a", "b"):
            self.begin(f"by-{name}", steps=20, sets=[f"data.graph_schema={found[name]['schema_digest']}"])
            self.assertEqual(self.cluster.wait_job(f"by-{name}", seconds=200)["state"], "COMPLETED")
        # Where the folder is at the site alone, it is the site that compares.
        hidden = self.cluster.folder / "hidden"
        self.b.rename(hidden)
        self.begin("hidden", steps=20, a=self.b, sets=["model.graph_sage.columns=8", f"data.graph_schema={found['b']['schema_digest']}"])
        hidden.rename(self.b)
        self.assertEqual(self.cluster.wait_job("hidden", seconds=200)["state"], "COMPLETED")
        # What it reads must be the same.
        columns = self.cluster.folder / "columns.txt"
        columns.write_text("".join(f"column {i}\n" for i in range(COLUMNS)))
        named = self.import_graph("named", self.cluster.folder / "a-source", "--valid-share", "0.1", "--feature-names", columns)
        refused = self.submit("refused", b=named)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("names its columns", refused.stdout + refused.stderr)
        # Classes need them.
        refused = self.submit("refused", sets=["model.graph_sage={hidden: 16}"])
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(f"classes at {self.a}", refused.stdout + refused.stderr)

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
