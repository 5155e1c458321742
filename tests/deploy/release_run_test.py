"""The files of a release, each installed on a system where nothing is: it then trains a small model on two pools, by
the commands of README.md.

    release_run_test.py [unittest arguments]

Environment: RELEASE_DIR, a folder that deploy/release.sh has filled (default: it is made); BUILD_DIR, a build for
that. Needs root and mmdebstrap; the systems are made of the packages of DEBIAN_MIRROR and UBUNTU_MIRROR.
"""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import venv

import documents

ROOT = documents.ROOT
sys.path.insert(0, str(ROOT / "tests/integration/processes"))
import tools  # noqa: E402
from cluster import free_port, wait_until  # noqa: E402

VERSION = (ROOT / "VERSION").read_text().strip()
DEBIAN = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
UBUNTU = os.environ.get("UBUNTU_MIRROR", "http://archive.ubuntu.com/ubuntu")
# In a system below $1: its own processes and devices, and the files of the release in /dist.
ENTER = """
set -eu
root=$1 dist=$2; shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mkdir -p "$root/dist"
mount --bind "$dist" "$root/dist"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
exec chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
"""
RESULT = """
longhaul get quickstart -o json > result.json
kill $(jobs -p)
wait
"""


def accepts(address):
    """Whether something listens at HOST:PORT."""
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def block(page, word):
    """The commands of the block of a page whose fence says so."""
    return re.search(rf"^```sh {word}\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)[1]


class ReleaseRunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-release-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.dist = pathlib.Path(os.environ.get("RELEASE_DIR") or cls.folder / "dist").resolve()
        cls.key = cls.folder / "release-key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "of a test", "-f", cls.key], check=True)
        if not os.environ.get("RELEASE_DIR"):
            build = ["--build", os.environ["BUILD_DIR"]] if os.environ.get("BUILD_DIR") else []
            # The block of docs/deploy/install.md, with more flags.
            [command] = [documents.without_comment(line) for line in block("docs/deploy/install.md", "release").splitlines()]
            command = command.replace("~/.ssh/longhaul-release", str(cls.key)).split()
            subprocess.run([*command, "--uncommitted", "--out", cls.dist, *build], cwd=ROOT, check=True)

    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)
        coordinator = f"127.0.0.1:{free_port()}"
        self.variables = {
            "LONGHAUL_LISTEN": coordinator,
            "LONGHAUL_COORDINATOR": coordinator,
            "LONGHAUL_SERVER": coordinator,
            "LONGHAUL_HTTP_LISTEN": "127.0.0.1:0",
            "OMP_WAIT_POLICY": "passive",
            "DEBIAN_FRONTEND": "noninteractive",
        }

    def system(self, suite, *sources, include=()):
        """A system of the essential packages alone."""
        root = self.work / suite
        subprocess.run(
            [
                "mmdebstrap",
                "--quiet",
                "--mode=root",
                "--variant=minbase",
                *(f"--include={name}" for name in include),
                suite,
                root,
                *sources,
            ],
            check=True,
        )
        self.assertEqual([name for name in ("cc", "gcc", "g++", "clang") if (root / "usr/bin" / name).exists()], [])
        return root

    def run_in(self, root, script):
        words = [f"{name}={value}" for name, value in self.variables.items()]
        return subprocess.run(
            [
                "unshare",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "bash",
                "-c",
                ENTER,
                "enter",
                root,
                self.dist,
                *words,
                "bash",
                "-euc",
                script,
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def trained(self, what, begun, result, folder):
        logs = "".join(f"\n{path.name}: {path.read_text()[-1000:]}" for path in folder.glob("*.log"))
        self.assertEqual(result.returncode, 0, result.stdout[-2000:] + result.stderr[-2000:] + logs)
        print(f"{what}: {time.monotonic() - begun:.0f} s from nothing to a trained model", file=sys.stderr)
        job = json.loads((folder / "result.json").read_text())["data"]
        self.assertEqual(job["state"], "COMPLETED")
        self.assertEqual(len(job["pools"]), 2)
        self.assertLess(job["eval_loss"]["last"], job["eval_loss"]["first"])

    def test_what_the_files_say_of_themselves(self):
        copy = self.work / "copy"
        shutil.copytree(self.dist, copy)
        if (copy / "SHA256SUMS.sig").exists() and not os.environ.get("RELEASE_DIR"):
            public = self.key.with_suffix(".pub").read_text()
            (copy / "allowed_signers").write_text(f"longhaul {public}")
            verify = ["bash", "-euc", block("docs/deploy/install.md", "verify")]
            self.assertEqual(subprocess.run(verify, cwd=copy, check=False, capture_output=True).returncode, 0)
            sums = (copy / "SHA256SUMS").read_text()
            (copy / "SHA256SUMS").write_text(sums.replace("a", "b"))
            self.assertNotEqual(subprocess.run(verify, cwd=copy, check=False, capture_output=True).returncode, 0)
            (copy / "SHA256SUMS").write_text(sums)
        subprocess.run(
            ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=copy, check=True, stdout=subprocess.DEVNULL
        )
        statement = json.loads((copy / f"longhaul-{VERSION}.provenance.json").read_text())
        listed = {line.split()[1]: line.split()[0] for line in (copy / "SHA256SUMS").read_text().splitlines()}
        self.assertEqual(
            {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]},
            {name: digest for name, digest in listed.items() if not name.endswith(".json")},
        )
        self.assertRegex(statement["predicate"]["buildDefinition"]["externalParameters"]["commit"], "^[0-9a-f]{40}$")
        parts = json.loads((copy / f"longhaul-{VERSION}.cdx.json").read_text())["components"]
        self.assertLessEqual({"torch", "libgrpc29", "libssl3", "nlohmann-json3-dev", "tokenizers"}, {part["name"] for part in parts})
        # Of the tarball each library is listed, with its bytes.
        files = {
            prop["value"]: part["hashes"][0]["content"]
            for part in parts
            for prop in part["properties"]
            if prop["name"] == "longhaul:file"
        }
        top = f"longhaul-{VERSION}-linux-x86_64"
        subprocess.run(["tar", "-xf", f"{top}.tar.gz", f"{top}/lib"], cwd=copy, check=True)
        found = subprocess.run(
            ["sha256sum", *sorted(path.name for path in (copy / top / "lib/longhaul").iterdir())],
            cwd=copy / top / "lib/longhaul",
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        self.assertEqual({f"lib/longhaul/{line.split()[1]}": line.split()[0] for line in found.splitlines()}, files)

    def test_debian_packages_follow_the_rules_of_debian(self):
        """But for what deploy/debian/*.lintian-overrides names."""
        packages = sorted(self.dist.glob("*.deb"))
        self.assertEqual(len(packages), 2)
        found = subprocess.run(["lintian", *packages], capture_output=True, text=True, check=False).stdout
        self.assertEqual(found, "")

    def test_debian_packages(self):
        root = self.system("bookworm", f"deb {DEBIAN} bookworm main")
        begun = time.monotonic()
        result = self.run_in(
            root,
            f"cd /dist; apt-get update -qq; {block('README.md', 'debian').replace('install', 'install -y -qq --no-install-recommends')}"
            f"mkdir /srv/t; cd /srv/t; {block('README.md', 'train')}{RESULT}",
        )
        self.trained("Debian packages", begun, result, root / "srv/t")
        state = root / "var/lib/longhaul/coordinator"
        state.mkdir(parents=True)
        # Installing again is an upgrade: settings that were changed stay.
        settings = root / "etc/longhaul/worker.env"
        settings.write_text("LONGHAUL_POOL=mine\n")
        result = self.run_in(
            root,
            "getent passwd longhaul; cd /dist; apt-get install -y -qq --reinstall ./longhaul*.deb; cat /etc/longhaul/worker.env; "
            "apt-get purge -y -qq longhaul longhaul-worker; getent passwd longhaul; ! command -v longhaul",
        )
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("LONGHAUL_POOL=mine\n", result.stdout)
        self.assertTrue(state.exists())
        self.assertFalse(settings.exists())

    def test_the_tarball_on_another_distribution(self):
        """The oldest that docs/deploy/install.md names."""
        root = self.system("jammy", f"deb [trusted=yes] {UBUNTU} jammy main", include=["libstdc++6"])
        begun = time.monotonic()
        result = self.run_in(
            root,
            f"mkdir /srv/t; cd /srv/t; ln -s /dist/*.tar.gz .; {block('README.md', 'tarball')}{block('README.md', 'train')}{RESULT}",
        )
        self.trained("tarball on Ubuntu 22.04", begun, result, root / "srv/t")

    def test_images(self):
        """As tests/deploy/images_run_test.py trains in them, from the archives, in a storage of their own."""
        archives = {image: self.dist / f"longhaul-{image}-{VERSION}.oci.tar" for image in ("coordinator", "worker")}
        if not all(path.exists() for path in archives.values()):
            self.skipTest("the release was made where images cannot be")
        settings = self.work / "storage.conf"
        settings.write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{self.work}/images"\nrunroot = "{self.work}/containers"\n'
        )
        environment = {
            **os.environ,
            "CONTAINERS_STORAGE_CONF": str(settings),
            "STORAGE_DRIVER": "vfs",
            "IMAGES_BUILT": "1",
        }
        begun = time.monotonic()
        for image, path in archives.items():
            pulled = subprocess.run(
                ["buildah", "pull", "--quiet", f"oci-archive:{path}"],
                check=True,
                capture_output=True,
                text=True,
                env=environment,
            ).stdout
            subprocess.run(
                ["buildah", "tag", pulled.split()[-1], f"localhost/longhaul-{image}:latest"],
                check=True,
                env=environment,
            )
        result = subprocess.run(
            [sys.executable, "-B", ROOT / "tests/deploy/images_run_test.py", "ImagesRunTest.test_trains_a_job"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        print(f"images: {time.monotonic() - begun:.0f} s from nothing to a trained model", file=sys.stderr)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_chart(self):
        """From the archive into a registry, as the workflow does, and from there by Helm: the same bytes as the other archive."""
        address = f"127.0.0.1:{free_port()}"
        settings = {
            "version": 0.1,
            "storage": {"filesystem": {"rootdirectory": str(self.work / "registry")}},
            "http": {"addr": address},
        }
        (self.work / "registry.json").write_text(json.dumps(settings))  # Which is YAML, too.
        registry = subprocess.Popen(
            [tools.program("docker-registry", "docker-registry"), "serve", self.work / "registry.json"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(registry.wait)
        self.addCleanup(registry.kill)
        wait_until(lambda: accepts(address), 30, "the registry")
        archive = self.dist / f"longhaul-chart-{VERSION}.oci.tar"
        copy = ["skopeo", "copy", "--quiet", "--dest-tls-verify=false", f"oci-archive:{archive}"]
        subprocess.run([*copy, f"docker://{address}/charts/longhaul:{VERSION}"], check=True)
        pull = (
            "import sys, helm_python; helm_python.RegistryClient(plain_http=True).pull("
            "sys.argv[1], destination=sys.argv[2], version=sys.argv[3], plain_http=True)"
        )
        python = tools.environment(ROOT / "deploy/release/requirements.txt")
        subprocess.run([python, "-c", pull, f"oci://{address}/charts/longhaul", self.work, VERSION], check=True)
        pulled = (self.work / f"longhaul-{VERSION}.tgz").read_bytes()
        self.assertEqual(pulled, (self.dist / f"longhaul-chart-{VERSION}.tgz").read_bytes())

    def train_with_wheel(self, install):
        environment = self.work / "environment"
        begun = time.monotonic()
        venv.create(environment, with_pip=True)
        result = subprocess.run(
            ["bash", "-euc", f"cp {self.dist}/*.whl .\n{install}{block('README.md', 'train')}{RESULT}"],
            cwd=self.work,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **self.variables, "PATH": f"{environment}/bin:/usr/bin:/bin"},
        )
        self.trained(install.split("-")[0].split("/")[1], begun, result, self.work)
        return environment

    def test_wheel_without_cuda(self):
        environment = self.train_with_wheel(block("README.md", "wheel"))
        site = next(environment.glob("lib/python3*/site-packages"))
        self.assertFalse((site / "torch").exists())
        client = "import longhaul; print(longhaul.__version__, longhaul.Client)"
        self.assertIn(
            VERSION,
            subprocess.run(
                [environment / "bin/python", "-c", client], check=True, capture_output=True, text=True
            ).stdout,
        )

    def test_wheel_with_torch(self):
        install = block("README.md", "wheel").replace("longhaul_cpu", "longhaul_cuda")
        environment = self.train_with_wheel(install)
        site = next(environment.glob("lib/python3*/site-packages"))
        self.assertFalse((site / "longhaul_libtorch").exists())
        libraries = subprocess.run(
            ["ldd", site / "longhaul_programs/bin/longhaul-rank"], check=True, capture_output=True, text=True
        ).stdout
        self.assertRegex(libraries, rf"libtorch_cpu.so => {site}/longhaul_programs/bin/../../torch/lib/")
        # The CUDA modules find all that they need except the driver.
        for module in (site / "longhaul_programs/lib").glob("*.so"):
            lacks = re.findall(
                r"(\S+) => not found",
                subprocess.run(["ldd", module], check=True, capture_output=True, text=True).stdout,
            )
            self.assertEqual([name for name in lacks if name != "libcuda.so.1"], [], module.name)


if __name__ == "__main__":
    unittest.main()
