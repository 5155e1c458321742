"""Builds the images and trains a job on what is in them: a coordinator and two workers, each from its image's root file system, mounted read-only, as its
image's user, under its image's process 1. Needs root and the Debian packages buildah, crun and mmdebstrap; several minutes the first time.

    images_run_test.py [unittest arguments]            IMAGES_BUILT=1: with the images that are there
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration/processes"))
import cluster  # noqa: E402
import images_test  # noqa: E402

os.environ.setdefault("STORAGE_DRIVER", "vfs")
BEYOND_BASE_MB = {"coordinator": 150, "worker": 700}
JOB = cluster.TINY_JOB.format(name="boxed", steps=300, pools=2, text="/data")
# As OpenShift chooses it: a user that no image knows, of the group root.
ANY_USER = "1000650000:0"
# What a Hugging Face model brings, in little.
MAKE_TOKENIZER = """
import json, tokenizers
lines = [f"the number {i} is {'even' if i % 2 == 0 else 'odd'}" for i in range(3000)]
tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
tokenizer.train_from_iterator(lines, tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=["<|endoftext|>"]))
tokenizer.save("/data/tokenizer.json")
open("/data/lines.jsonl", "w").write("".join(json.dumps({"text": line}) + chr(10) for line in lines))
print(tokenizer.get_vocab_size())
"""

# Within a mount and process namespace of its own: the image's files read-only, /tmp and the volumes beside them.
ENTER = """
set -eu
root=$1; shift
mount --make-rprivate /
mount --bind "$root" "$root"
mount -o remount,ro,bind "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
[ -z "$VOLUME" ] || mount --bind "${VOLUME%%:*}" "$root${VOLUME#*:}"
user=$IMAGE_USER
exec chroot --userspec="$user" "$root" env -i "$@"
"""


def buildah(*arguments):
    return subprocess.run(["buildah", *arguments], capture_output=True, text=True, check=True).stdout.strip()


class Box:
    """A container of an image, as a runtime starts it."""

    def __init__(self, image, folder, volume="", user=None):
        self.image, self.volume, self.user = image, volume, user
        self.config = json.loads(buildah("inspect", "--type", "image", f"localhost/longhaul-{image}:latest"))["Docker"]["config"]
        self.container = buildah("from", "--pull-never", f"localhost/longhaul-{image}:latest")
        self.root = buildah("mount", self.container)
        self.log = folder / f"{self.container}.log"
        self.process = None

    def command(self, environment, words):
        settings = [*self.config["Env"], *(f"{k}={v}" for k, v in environment.items())]
        return (["unshare", "--mount", "--pid", "--fork", "bash", "-c", ENTER, "enter", self.root, *settings, *words],
                {**os.environ, "VOLUME": self.volume, "IMAGE_USER": self.user or self.config["User"]})

    def start(self, *flags, **environment):
        command, env = self.command(environment, [*self.config["Entrypoint"], *flags])
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def run(self, *words, stdin=None, **environment):
        command, env = self.command(environment, words)
        return subprocess.run(command, env=env, input=stdin, capture_output=True, text=True, timeout=300, check=False)

    def first_process(self):
        """Process 1 of the box, as the machine numbers it."""
        return cluster.children(self.process.pid)[0]

    def stop(self):
        """As a runtime does: SIGTERM to process 1."""
        os.kill(self.first_process(), signal.SIGTERM)
        return self.process.wait(60)

    def close(self):
        if self.process is not None and self.process.poll() is None:
            for process in [*cluster.children(self.process.pid), self.process.pid]:  # With process 1 its namespace ends.
                cluster.kill(process)
            self.process.wait()
        buildah("rm", self.container)


class ImagesRunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.environ.get("IMAGES_BUILT"):
            subprocess.run([ROOT / "deploy/images/build.sh", "coordinator", "worker"], check=True)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-images-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.data = self.folder / "data"
        self.data.mkdir()
        os.chown(self.data, 10001, 10001)

    def box(self, image, volume="", user=None):
        box = Box(image, self.folder, volume, user)
        self.addCleanup(box.close)
        return box

    def free_ports(self, count):
        ports = set()
        while len(ports) < count:
            ports.add(cluster.free_port())
        return [f"127.0.0.1:{port}" for port in ports]

    def await_health(self, box, seconds=30, **environment):
        deadline = time.monotonic() + seconds
        # The format of OCI, in which releases have the images, knows no health check.
        check = box.config.get("Healthcheck", {"Test": ["CMD", "healthcheck"]})["Test"][1:]
        while box.run(*check, **environment).returncode != 0:
            self.assertIsNone(box.process.poll(), box.log.read_text())
            self.assertLess(time.monotonic(), deadline, box.log.read_text())
            time.sleep(0.2)

    def test_sizes(self):
        mb = {}
        for image in json.loads(buildah("images", "--json")):
            number, unit = image["size"].split()
            for name in image["names"] or []:
                mb[name.split("/")[1].split(":")[0]] = float(number) * {"MB": 1, "GB": 1000}[unit]
        for image, most in BEYOND_BASE_MB.items():
            beyond = mb[f"longhaul-{image}"] - mb["longhaul-base"]
            print(f"{image}: {beyond:.0f} MB beyond its base", file=sys.stderr)
            self.assertLessEqual(beyond, most)

    def test_nothing_private_is_copied(self):
        """buildah reads .dockerignore: a context with what users have in their tree, and all of it copied."""
        context = self.folder / "context"
        for path in (*images_test.PRIVATE, "deploy/examples/quickstart.yaml"):
            (context / path).parent.mkdir(parents=True, exist_ok=True)
            (context / path).write_text(path)
        shutil.copy(ROOT / ".dockerignore", context)
        (context / "Dockerfile").write_text("FROM scratch\nCOPY . /\n")
        name = f"localhost/longhaul-private-{os.getpid()}"
        buildah("build", "--tag", name, context)
        self.addCleanup(buildah, "rmi", name)
        container = buildah("from", "--pull-never", name)
        self.addCleanup(buildah, "rm", container)
        root = pathlib.Path(buildah("mount", container))
        self.assertTrue((root / "deploy/examples/quickstart.yaml").exists())
        self.assertEqual([path for path in images_test.PRIVATE if (root / path).exists()], [])

    def test_beyond_localhost_plaintext_must_be_asked_for(self):
        coordinator = self.box("coordinator", f"{self.data}:/var/lib/longhaul")
        coordinator.start(LONGHAUL_LISTEN="0.0.0.0:0", LONGHAUL_HTTP_LISTEN="127.0.0.1:0")
        self.assertNotEqual(coordinator.process.wait(30), 0)
        self.assertIn("plaintext", coordinator.log.read_text())

    def test_trains_a_job(self):
        server, *http = self.free_ports(4)
        at_coordinator = {"LONGHAUL_LISTEN": server, "LONGHAUL_HTTP_LISTEN": http[0]}
        coordinator = self.box("coordinator", f"{self.data}:/var/lib/longhaul")
        coordinator.start(**at_coordinator)
        self.await_health(coordinator, **at_coordinator)
        workers = []
        for pool, address in zip(("site-a", "site-b"), http[1:]):
            box = self.box("worker", f"{cluster.TEXT}:/data")
            at_worker = {"LONGHAUL_HTTP_LISTEN": address}
            box.start("--threads", "1", LONGHAUL_POOL=pool, LONGHAUL_COORDINATOR=server, **at_worker)
            self.await_health(box, **at_worker)
            workers.append(box)
        self.check_confinement(coordinator, workers[0])
        submitted = coordinator.run("longhaul", "--server", server, "submit", "-f", "-", "--wait", stdin=JOB)
        self.assertEqual(submitted.returncode, 0, submitted.stderr + "".join(b.log.read_text()[-2000:] for b in workers))
        job = json.loads(coordinator.run("longhaul", "--server", server, "get", "boxed", "-o", "json").stdout)["data"]
        self.assertEqual(job["state"], "COMPLETED")
        self.assertLess(job["eval_loss"]["last"], job["eval_loss"]["first"])
        self.assertTrue(list(self.data.glob("jobs/*/checkpoints/step-*")))
        for box in [*workers, coordinator]:
            self.assertEqual(box.stop(), 0, box.log.read_text()[-2000:])

    def test_any_user_trains_with_a_tokenizer(self):
        """A job with a tokenizer.json and one of conversations' packages, where the platform chooses the users of all containers."""
        server, *http = self.free_ports(3)
        corpus = self.folder / "corpus"
        corpus.mkdir()
        for folder in (self.data, corpus):  # As a volume is for the group root.
            os.chown(folder, 0, 0)
            folder.chmod(0o775)
        at_coordinator = {"LONGHAUL_LISTEN": server, "LONGHAUL_HTTP_LISTEN": http[0]}
        coordinator = self.box("coordinator", f"{self.data}:/var/lib/longhaul", ANY_USER)
        coordinator.start(**at_coordinator)
        self.await_health(coordinator, **at_coordinator)
        at_worker = {"LONGHAUL_HTTP_LISTEN": http[1]}
        worker = self.box("worker", f"{corpus}:/data", ANY_USER)
        worker.start("--threads", "1", LONGHAUL_POOL="site-a", LONGHAUL_COORDINATOR=server, **at_worker)
        self.await_health(worker, **at_worker)
        self.assertEqual(worker.run("healthcheck", "/nowhere", **at_worker).returncode, 1)
        self.assertIn("Uid:\t1000650000\t", pathlib.Path(f"/proc/{worker.first_process()}/status").read_text())
        made = worker.run("python3", "-c", MAKE_TOKENIZER)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(worker.run("python3", "-c", "import longhaul.chat, jinja2, zstandard").returncode, 0)
        # In a batch job of Slurm, by Apptainer's recipe.
        batch = worker.run("/bin/sh", "-c", images_test.script_of_apptainer(), "worker.sif", "--pool", "site-b", "--print-config")
        self.assertIn("# http-listen is not set", batch.stdout, batch.stderr)
        job = cluster.TINY_JOB.format(name="tokenized", steps=60, pools=1, text="/data")
        sets = ["data={jsonl: {path: lines.jsonl, tokenizer: tokenizer.json}}", f"model.transformer.vocab={made.stdout.strip()}"]
        words = ["longhaul", "--server", server, "submit", "-f", "-", "--wait", *(word for each in sets for word in ("--set", each))]
        submitted = coordinator.run(*words, stdin=job)
        self.assertEqual(submitted.returncode, 0, submitted.stdout + submitted.stderr + worker.log.read_text()[-2000:])
        for box in (worker, coordinator):
            self.assertEqual(box.stop(), 0, box.log.read_text()[-2000:])

    def check_confinement(self, coordinator, worker):
        for box in (coordinator, worker):
            status = pathlib.Path(f"/proc/{box.first_process()}/status").read_text()
            self.assertIn("Name:\ttini\n", status)
            self.assertIn("Uid:\t10001\t10001\t10001\t10001\n", status)
            self.assertIn("CapEff:\t0000000000000000\n", status)
            self.assertEqual(box.run("id", "-u").stdout.strip(), "10001")
            for path in ("/written", "/usr/local/bin/written", "/etc/written"):
                self.assertNotEqual(box.run("touch", path).returncode, 0, path)


if __name__ == "__main__":
    unittest.main()
