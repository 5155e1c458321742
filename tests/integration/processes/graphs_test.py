"""Jobs on graphs, with the real programs: two pools with disjoint planted graphs."""

import array
import csv
import json
import math
import os
import random
import signal
import struct
import subprocess

from cluster import BIN, SANITIZED, ClusterTest, alive, kill, main, wait_until
from graph_tensors import check_pools_together, predict, product, read_floats, read_tensors

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


def memory_of(pid, file):
    """(kilobytes of the file's mapping in memory, this process's share of them, kilobytes of its anonymous memory)."""
    resident = share = anonymous = 0
    mapped = False
    with open(f"/proc/{pid}/smaps") as lines:
        for line in lines:
            words = line.split()
            if not words[0].endswith(":"):
                mapped = line.rstrip().endswith(str(file))
            elif words[0] == "Anonymous:":
                anonymous += int(words[1])
            elif mapped and words[0] == "Rss:":
                resident += int(words[1])
            elif mapped and words[0] == "Pss:":
                share += int(words[1])
    return resident, share, anonymous


def outputs_of(tensors, folder):
    """Of each node of an imported graph: a model of two layers with the mean of neighbors, by the plain formula."""
    rows = [[float(value) for value in line.split(",")] for line in (folder / "features.csv").read_text().split()]
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
    return rows


def accuracy_of(tensors, folder, split="valid"):
    """The share of a split's nodes whose class that model finds."""
    rows, labels = outputs_of(tensors, folder), [int(line) for line in (folder / "labels.csv").read_text().split()]
    nodes = [int(line) for line in (folder / f"{split}.csv").read_text().split()]
    return sum(rows[node].index(max(rows[node])) == labels[node] for node in nodes) / len(nodes)


def macro_f1_of(labels, predicted):
    """The mean of F1 over the classes that have a label or a prediction."""
    scores = []
    for which in sorted({*labels, *predicted}):
        right = sum(a == b == which for a, b in zip(labels, predicted))
        scores.append(2 * right / (labels.count(which) + predicted.count(which)))
    return sum(scores) / len(scores)


class GraphsTest(ClusterTest):
    BYTES_PER_SECOND = 400_000

    def graph(self, name, seed, *flags, nodes=400, sources=None):
        """The folder of an imported graph. `sources` changes its files first."""
        source = self.cluster.folder / f"{name}-source"
        write_planted(source, seed, nodes)
        if sources:
            sources(source)
        files = [item for part in ("edges", "features", "labels", "train", "valid", "test") for item in (f"--{part}", source / f"{part}.csv")]
        out = self.cluster.folder / name
        result = self.cluster.cli("graph", "import", "edges", "--nodes", str(nodes), *files, "--out", out, *flags,
                                  *(() if "--directed" in flags else ("--reverse-edges",)))
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
        self.assertEqual(job["eval_loss"]["pools"], 2)
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
        self.check_evaluations(job, tensors)
        self.assertEqual(json.loads((out / "config.json").read_text())["fanout"], [5, 5])

    def check_evaluations(self, job, tensors):
        """Every pool has evaluated the outer parameters on its own nodes; what is shown of them follows from that."""
        sites = {p["pool"]: {m["name"]: m["value"] for m in p["outer_evaluation"]} for p in job["pools"]}
        self.assertEqual(sorted(sites), ["site-a", "site-b"])
        names = {"loss", "accuracy", "macro_f1"}
        sizes = {}
        for pool, folder in (("site-a", "a"), ("site-b", "b")):
            self.assertEqual(set(sites[pool]), names | {f"test_{name}" for name in names} | {"test_examples"})
            source = self.cluster.folder / f"{folder}-source"
            # A node whose two best classes are nearly equal may fall to either.
            self.assertAlmostEqual(sites[pool]["accuracy"], accuracy_of(tensors, source), delta=0.011)
            self.assertAlmostEqual(sites[pool]["test_accuracy"], accuracy_of(tensors, source, "test"), delta=0.011)
            sizes[pool] = {split: len((source / f"{split}.csv").read_text().split()) for split in ("valid", "test")}
            self.assertEqual(sites[pool]["test_examples"], sizes[pool]["test"])
        for p in job["pools"]:
            # Beside it what its own parameters reach, without test nodes.
            self.assertEqual({m["name"] for m in p["evaluation"]}, names)
        check_pools_together(self, job, sizes)
        self.assertAlmostEqual(job["eval_loss"]["last"], self.metrics(job)["loss"], places=9)
        shown = self.cluster.cli("get", "graph").stdout
        for words in ("macro f1", "test accuracy", "worst pool", "mean of 2 pools", "its own", "NODES/S"):
            self.assertIn(words, shown)

    def test_predictions_are_those_of_the_job_with_the_users_ids(self):
        ids = self.cluster.folder / "ids.txt"
        ids.write_text("".join(f"node,{i}\n" for i in range(300)))
        names = self.cluster.folder / "names.txt"
        names.write_text("".join(f"class {i}\n" for i in range(CLASSES)))
        self.a = self.b = self.graph("a", 1, "--ids", ids, "--class-names", names, nodes=300)
        self.cluster.start_worker("site-a", 1)
        self.cluster.start_worker("site-b", 1)
        self.assertEqual(self.submit(steps=60).returncode, 0)
        job = self.cluster.wait_job("graph", seconds=200)
        sites = {p["pool"]: {m["name"]: m["value"] for m in p["outer_evaluation"]} for p in job["pools"]}
        # Both sites have the same graph.
        self.assertEqual(sites["site-a"], sites["site-b"])

        result, answer = predict(self.cluster, "graph", "predicted", "--graph", self.a, "--split", "test")
        self.assertEqual(result.returncode, 0, result.stderr)
        source = self.cluster.folder / "a-source"
        test = [int(line) for line in (source / "test.csv").read_text().split()]
        self.assertEqual(answer["data"]["nodes"], len(test))
        for name in ("accuracy", "macro_f1"):
            self.assertAlmostEqual(answer["data"][name], sites["site-a"][f"test_{name}"], places=9)
        with open(self.cluster.folder / "predicted/predictions.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["id"] for row in rows], [f"node,{node}" for node in test])
        labels = [int(line) for line in (source / "labels.csv").read_text().split()]
        predicted = [int(row["class"].split()[1]) for row in rows]
        self.assertAlmostEqual(macro_f1_of([labels[node] for node in test], predicted), answer["data"]["macro_f1"], places=9)
        out = self.cluster.folder / "trained"
        self.assertEqual(self.cluster.cli("export", "graph", "--dtype", "fp32", "--out", out).returncode, 0)
        plain = outputs_of(read_tensors(out / "model.safetensors"), source)
        checkpoint = self.cluster.folder / "checkpoint"
        self.assertEqual(self.cluster.cli("download", "graph", "--out", checkpoint).returncode, 0)
        result, answer = predict(self.cluster, checkpoint, "all", "--graph", self.a, "--embeddings")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(answer["data"]["files"], ["predictions.csv", "nodes.npy", "probabilities.npy", "embeddings.npy"])
        probabilities = self.floats(self.cluster.folder / "all/probabilities.npy", (300, CLASSES))
        for node, row in enumerate(plain):
            exponents = [math.exp(value - max(row)) for value in row]
            for i, value in enumerate(exponents):
                self.assertAlmostEqual(probabilities[node * CLASSES + i], value / sum(exponents), places=4)
        self.floats(self.cluster.folder / "all/embeddings.npy", (300, 32))
        other = self.graph("other", 4, nodes=100, sources=self.narrow)
        for (model, graph, flags), words in (((checkpoint, other, ()), ["it has 7 columns, the model 8", "graph info"]),
                                             ((self.a, self.a, ()), ["manifest.json is not a checkpoint's manifest"]),
                                             ((out, self.a, ()), ["is not the folder of a checkpoint", "longhaul download"]),
                                             (("nobody", self.a, ()), ["nobody"]),
                                             ((checkpoint, self.cluster.folder / "none", ()), ["none"]),
                                             ((checkpoint, self.a, ("--split", "some")), ["--split"]),
                                             ((checkpoint, self.a, ("--pairs", source / "edges.csv")), ["--pairs", "classes of nodes, not links", "leave it out"])):
            result, answer = predict(self.cluster, model, "refused", "--graph", graph, *flags)
            self.assertEqual(result.returncode, 4, result.stderr)
            for word in words:
                self.assertIn(word, result.stderr)
            self.assertFalse((self.cluster.folder / "refused").exists())
        result, _ = predict(self.cluster, checkpoint, "all", "--graph", self.a)
        self.assertIn("exists", result.stderr)
        self.assertEqual(result.returncode, 4, result.stderr)
        # A graph may lie in a folder with the name of its job. Options of the connection may come first.
        (self.cluster.folder / "graph").symlink_to(self.a)
        result = subprocess.run([BIN / "longhaul", "--server", self.cluster.address, "graph", "predict", "graph", "--graph", "graph", "--out", "again"],
                                capture_output=True, text=True, timeout=60, check=False, cwd=self.cluster.folder,
                                env={**os.environ, "XDG_CACHE_HOME": str(self.cluster.folder / "cache")})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"folder +again\n")

    @staticmethod
    def narrow(folder):
        """One column less."""
        path = folder / "features.csv"
        path.write_text("".join(line.rsplit(",", 1)[0] + "\n" for line in path.read_text().split()))

    def floats(self, path, shape):
        found, values = read_floats(path)
        self.assertEqual(found, str(shape))
        return values

    def test_edges_that_go_one_way_run_with_a_warning(self):
        def one_way(folder):
            pairs = [line for line in (folder / "edges.csv").read_text().split() if int(line.split(",")[1]) % 3]
            (folder / "edges.csv").write_text("".join(f"{line}\n" for line in pairs))
        self.a, self.b = self.graph("a", 1, "--directed", sources=one_way), self.graph("b", 2)
        source = self.cluster.folder / "a-source"
        self.begin(steps=40)
        job = self.cluster.wait_job("graph", seconds=200)
        targets = {line.split(",")[1] for line in (source / "edges.csv").read_text().split()}
        without = 400 - len(targets)
        share = f"{100 * without / 400:.1f} % of the nodes ({without} of 400) have no in-edge"
        warnings = [warning for warning in job["warnings"] if "site-a" in warning]
        self.assertGreater(without, 80)
        self.assertEqual(len(warnings), 1, job["warnings"])
        self.assertIn(share, warnings[0])
        self.assertIn("--reverse-edges", warnings[0])
        self.assertFalse([warning for warning in job["warnings"] if "site-b" in warning])
        events = self.cluster.cli("events", "graph", "-o", "json").stdout
        self.assertIn("NODES_WITHOUT_IN_EDGES", events)

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

    def test_a_killed_rank_agent_and_coordinator_bring_all_back(self):
        # The pool whose rank or agent is killed comes back from the outer parameters and with its optimizer's state; the
        # rounds until then are the other pool's, as in any job. So parameters are not those of an undisturbed run.
        self.graphs()
        state = self.cluster.folder / "state"
        state.mkdir()

        def start(pool):
            self.cluster.start_worker(pool, 2, "--state-dir", state, "--state-every", "300ms")

        def saved(pool):
            return next((p["inner_state_saved_step"] for p in self.cluster.job("graph")["pools"] if p["pool"] == pool), 0)

        for pool in ("site-a", "site-b"):
            start(pool)
        self.begin(steps=1500)
        self.cluster.wait_step(100, "graph")
        wait_until(lambda: saved("site-a") > 20 and saved("site-b") > 20, 60, "saved states")
        kill(self.cluster.ranks_of("site-b")[1])
        self.cluster.wait_log("site-b", "resumes from its inner state", 60)
        ranks = self.cluster.ranks_of("site-a")
        self.cluster.workers["site-a"].kill()
        self.cluster.workers["site-a"].wait()
        wait_until(lambda: not any(alive(rank) for rank in ranks), 10, "the ranks to end with their agent")
        start("site-a")
        self.cluster.wait_log("site-a", "resumes from its inner state", 60)
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        job = self.cluster.wait_job("graph", seconds=200)
        self.assertGreater(self.metrics(job)["accuracy"], 0.8)
        self.assertEqual(job["eval_loss"]["pools"], 2)
        for pool in job["pools"]:
            self.assertEqual((pool["inner_state_losses"], pool["inner_state_failures"]), (0, 0))
            self.assertIn("test_accuracy", {metric["name"] for metric in pool["outer_evaluation"]})

    def test_a_stopped_rank_is_replaced_and_the_job_ends_well(self):
        self.graphs()
        for pool in ("site-a", "site-b"):
            self.cluster.start_worker(pool, 2, "--progress-timeout", "4")
        self.begin(steps=1500)
        self.cluster.wait_step(100, "graph")
        ranks = self.cluster.ranks_of("site-b")
        os.kill(ranks[1], signal.SIGSTOP)
        wait_until(lambda: not any(alive(rank) for rank in ranks), 60, "the standstill to be noticed")
        self.cluster.wait_log("site-b", "rank 1 was silent")
        job = self.cluster.wait_job("graph", seconds=200)
        self.assertEqual(job["state"], "COMPLETED")
        self.assertGreater(self.metrics(job)["accuracy"], 0.8)
        self.assertEqual(job["eval_loss"]["pools"], 2)
        for pool in job["pools"]:
            self.assertIn("test_accuracy", {metric["name"] for metric in pool["outer_evaluation"]})

    def test_the_ranks_of_a_machine_share_one_copy_of_the_features(self):
        nodes, columns = 80_000, 500
        source = self.cluster.folder / "wide-source"
        source.mkdir()
        chance = random.Random(1)
        some = array.array("f", [chance.random() for _ in range(nodes)])
        with open(source / "features.npy", "wb") as file:
            header = repr({"descr": "<f4", "fortran_order": False, "shape": (nodes, columns)}).ljust(117) + "\n"
            file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
            for _ in range(columns):
                file.write(some.tobytes())
        (source / "edges.csv").write_text("".join(f"{node},{chance.randrange(nodes)}\n" for node in range(0, nodes, 2)))
        (source / "labels.csv").write_text("".join(f"{node % CLASSES}\n" for node in range(nodes)))
        for name, first in (("train", 0), ("valid", 70_000), ("test", 75_000)):
            (source / f"{name}.csv").write_text("".join(f"{node}\n" for node in range(first, first + 5_000)))
        files = [item for part in ("edges.csv", "features.npy", "labels.csv", "train.csv", "valid.csv", "test.csv")
                 for item in (f"--{part.split('.')[0]}", source / part)]
        wide = self.cluster.folder / "wide"
        imported = self.cluster.cli("graph", "import", "edges", "--nodes", str(nodes), *files, "--directed", "--out", wide, timeout=300)
        self.assertEqual(imported.returncode, 0, imported.stderr)
        self.cluster.start_worker("site-a", 2)
        submitted = self.submit(a=wide, b=wide, steps=100_000, sets=[f"data={{graph: {{path: {wide}, access: host}}}}", "pools={min: 1}",
                                                                     "evaluation.every_cycles=1000000"])
        self.assertEqual(submitted.returncode, 0, submitted.stdout + submitted.stderr)
        self.cluster.wait_step(1, "graph")
        table = nodes * columns * 4 // 1024
        of_ranks = [memory_of(pid, "features.npy") for pid in self.cluster.ranks_of("site-a")]
        self.assertEqual(len(of_ranks), 2)
        for resident, _, anonymous in of_ranks:
            self.assertGreater(resident, 0.95 * table)
            if not SANITIZED:  # They take memory themselves.
                self.assertLess(anonymous, 0.9 * table)
        self.assertLess(sum(share for _, share, _ in of_ranks), 1.05 * table)
        self.cluster.wait_log("site-a", "features by host")
        self.assertRegex(self.cluster.job("graph")["pools"][0]["data"]["features"], r"^host, [\d.e+]+ GB/s$")

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
                            (dict(access="zero_copy"), ["data.pools[0].graph.access", "needs train.device: cuda"]),
                            (dict(sets=["train.device=cuda", "train.cuda_graphs=true"]), ["train.cuda_graphs", "differ in size"]),
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
