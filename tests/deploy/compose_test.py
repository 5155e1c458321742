"""deploy/compose.yaml on a real engine (podman): coordinator, two pools and Prometheus in containers of their own, with a network and names between them, through one
job. Needs root, the images (deploy/images/build.sh) and the Debian packages that `tests/deploy/run.sh compose` installs.

    compose_test.py [unittest arguments]

Grafana is not started: no Debian package has it. Prometheus is Debian's, in an image with the name and the conventions of the one that the file names.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration/processes"))
import cluster  # noqa: E402

COMPOSE = ROOT / "deploy/compose.yaml"
SERVICES = ("coordinator", "site-a", "site-b", "prometheus")
PROMETHEUS = next(line.split()[1] for line in COMPOSE.read_text().splitlines() if "prom/prometheus" in line)
JOB = cluster.TINY_JOB.format(name="composed", steps=300, pools=2, text="/data")
HYBRID_CGROUPS = pathlib.Path("/sys/fs/cgroup/unified")


def enter_namespace():
    """Mounts of containers are seen by this test alone. crun knows no hybrid cgroups, so there it runs without."""
    if os.environ.get("IN_NAMESPACE"):
        return
    script = 'umount -R /sys/fs/cgroup; mount -t tmpfs none /sys/fs/cgroup; exec "$@"' if HYBRID_CGROUPS.exists() else 'exec "$@"'
    os.environ.update(IN_NAMESPACE="1", CGROUPS="disabled" if HYBRID_CGROUPS.exists() else "enabled")
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh", sys.executable, "-B", *sys.argv])


def run(*words, check=True, stdin=None, seconds=300):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, input=stdin, timeout=seconds, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.loads(answer.read())


def wait_until(what, holds, seconds=60):
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = holds()
        except OSError:
            found = None
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not in {seconds} s: {what}")
        time.sleep(0.5)


class ComposeTest(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-compose-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        (folder / "containers.conf").write_text(f"""[containers]
cgroups = "{os.environ["CGROUPS"]}"
# Few, so that podman need not raise its own.
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[network]
network_backend = "netavark"
[engine]
events_logger = "file"
""")
        os.environ.update(CONTAINERS_CONF=str(folder / "containers.conf"), STORAGE_DRIVER=os.environ.get("STORAGE_DRIVER", "vfs"), LONGHAUL_DATA=str(cluster.TEXT))
        self.make_prometheus()
        self.addCleanup(self.tear_down)
        up = self.compose("up", "-d", "--no-build", *SERVICES)
        # Its exit status does not say whether they started.
        self.assertEqual({service: one["State"] for service, one in self.containers().items()}, dict.fromkeys(SERVICES, "running"), up.stderr)

    def make_prometheus(self):
        """Debian's, as the official image has it: /bin/prometheus as user nobody, data in /prometheus."""
        if run("podman", "image", "exists", PROMETHEUS, check=False).returncode == 0:
            return
        container = run("buildah", "from", "--pull-never", "localhost/longhaul-base:bookworm").stdout.strip()
        root = pathlib.Path(run("buildah", "mount", container).stdout.strip())
        shutil.copy("/usr/bin/prometheus", root / "bin/prometheus")
        (root / "prometheus").mkdir()
        os.chown(root / "prometheus", 65534, 65534)
        run("buildah", "config", "--entrypoint", '["/bin/prometheus"]', "--user", "nobody", "--workingdir", "/prometheus", "--volume", "/prometheus", container)
        run("buildah", "commit", "--quiet", "--rm", container, PROMETHEUS)

    def compose(self, *words, check=True, stdin=None):
        return run("podman-compose", "-f", COMPOSE, *words, check=check, stdin=stdin)

    def tear_down(self):
        for service in SERVICES:
            said = self.compose("logs", "--tail", "3", service, check=False)
            print(said.stdout, said.stderr, file=sys.stderr)
        self.compose("down", "-v", "-t", "1", check=False)

    def containers(self):
        """The containers of the file, by service, as podman lists them."""
        listed = json.loads(run("podman", "ps", "-a", "--filter", "label=com.docker.compose.project=deploy", "--format", "json").stdout)
        return {one["Labels"]["com.docker.compose.service"]: one for one in listed}

    def longhaul(self, *words, stdin=None):
        return self.compose("exec", "-T", "coordinator", "longhaul", *words, stdin=stdin)

    def query(self, words):
        return get(f"http://127.0.0.1:9090/api/v1/query?query={words}")["data"]["result"]

    def test_trains_a_job_and_is_scraped(self):
        wait_until("both pools are idle", lambda: self.longhaul("pools").stdout.count("IDLE") == 2)
        self.longhaul("submit", "-f", "-", "--wait", stdin=JOB)
        shown = self.longhaul("get", "composed", "-o", "json").stdout
        # Between podman-compose's own lines.
        job = json.JSONDecoder().raw_decode(shown[shown.index("{"):])[0]["data"]
        self.assertEqual(job["state"], "COMPLETED")
        self.assertLess(job["eval_loss"]["last"], job["eval_loss"]["first"])
        # The page, from outside.
        with urllib.request.urlopen("http://127.0.0.1:7071/", timeout=10) as page:
            self.assertIn(b"Longhaul", page.read())
        wait_until("Prometheus reaches all three", lambda: [r["value"][1] for r in self.query("up")] == ["1"] * 3)
        self.assertTrue(get("http://127.0.0.1:9090/api/v1/rules")["data"]["groups"])
        # A worker drains and ends well within the file's grace; the coordinator, too.
        self.compose("stop", "-t", "45", "site-a", "site-b", "coordinator")
        ended = {service: one["ExitCode"] for service, one in self.containers().items() if one["State"] == "exited"}
        self.assertEqual(ended, {"site-a": 0, "site-b": 0, "coordinator": 0})


if __name__ == "__main__":
    enter_namespace()
    unittest.main()
