"""Jobs on graphs, with the real programs: two pools with disjoint planted graphs."""

import array
import json
import random
import struct

from cluster import ClusterTest, kill, main, wait_until

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
            self.assertLess(anonymous, 0.9 * table)
        self.assertLess(sum(share for _, share, _ in of_ranks), 1.05 * table)
        self.assertIn("features by host", self.cluster.log("site-a"))
        self.assertRegex(self.cluster.job("graph")["pools"][0]["data"]["features"], r"^host, [\d.e+]+ GB/s$")

    def test_what_does_not_go_is_refused_at_submit(self):
        self.graphs()
        names = self.cluster.folder / "names.txt"
        names.write_text("".join(f"class-{i}\n" for i in range(CLASSES)))
        named = self.graph("named", 3, "--class-names", names)
        for more, words in ((dict(b=named), ["data.pools[1].graph", "schema"]),
                            (dict(sets=["model.graph_sage.columns=5"]), ["model.graph_sage.columns", "found 5"]),
                            (dict(sets=["model.graph_sage.links={}"]), ["link prediction is not built yet"]),
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
