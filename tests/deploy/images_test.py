"""What can be said of the images without building them: that what they name is there, and that they install what the programs link.

    images_test.py BUILD/bin [unittest arguments]          images_run_test.py builds and runs them
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration/processes"))
import cluster  # noqa: E402  (reads the first argument)
import tools  # noqa: E402

IMAGES = ROOT / "deploy/images"
PROGRAMS = {"coordinator": ["longhaul-coordinator", "longhaul", "longhaul-sentencepiece"],
            "worker": ["longhaul-worker", "longhaul-rank", "longhaul-lm", "longhaul-sentencepiece"]}

# What users have in their tree.
PRIVATE = ("deploy/data/text.txt", "longhaul-ca/ca.pem", "deploy/longhaul-ca/ca.key", "site.key", "deploy/alice.token", "tokens")

# What a program says when it listens.
SERVES = r"serving at|metrics at http"


def instructions(path):
    """(word, rest) of a Dockerfile, with lines joined and comments left out."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    text = re.sub(r"\\\n", " ", "\n".join(lines))
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def packages(name):
    return {line.split("#")[0].strip() for line in (IMAGES / name).read_text().splitlines()} - {""}


def script_of_apptainer():
    """The lines that `apptainer run` gives to /bin/sh in the container."""
    return re.search(r"^%runscript\n((?:    .*\n)+)", (ROOT / "deploy/slurm/worker.def").read_text(), re.MULTILINE)[1]


class ImagesTest(unittest.TestCase):
    def dockerfiles(self):
        paths = sorted(IMAGES.glob("*.Dockerfile"), key=lambda path: path.name.split(".")[0])
        self.assertEqual([p.name.split(".")[0] for p in paths], ["coordinator", "worker", "worker-cuda"])
        for path in paths:
            with self.subTest(path.name):
                yield path, instructions(path)

    def test_what_is_copied_is_there(self):
        for _, lines in self.dockerfiles():
            for word, rest in lines:
                sources = [] if word != "COPY" or rest.startswith("--from") else rest.split()[:-1]
                for source in sources:
                    self.assertTrue((ROOT / source).exists(), source)

    def test_neither_data_nor_secrets_are_committed(self):
        """What the documents and the compose file have users put into the tree. images_run_test.py: nor copied into images."""
        for path in PRIVATE:
            ignored = subprocess.run(["git", "check-ignore", "--no-index", "-q", path], cwd=ROOT, check=False)
            self.assertEqual(ignored.returncode, 0, path)
        self.assertEqual(subprocess.run(["git", "check-ignore", "--no-index", "-q", "README.md"], cwd=ROOT, check=False).returncode, 1)

    def test_base_and_mirror_are_arguments(self):
        for _, lines in self.dockerfiles():
            self.assertEqual({rest.split()[0] for word, rest in lines if word == "FROM"}, {"${BASE}"})
            self.assertEqual(len([1 for word, _ in lines if word == "FROM"]), 2)
            self.assertGreaterEqual(len([1 for word, rest in lines if (word, rest) == ("ARG", "DEBIAN_MIRROR=")]), 2)

    def test_each_runs_as_somebody_under_an_init_and_can_be_asked(self):
        for path, lines in self.dockerfiles():
            last = {word: rest for word, rest in lines}
            self.assertEqual(last["USER"], "10001:10001")
            program = "longhaul-coordinator" if "coordinator" in path.name else "longhaul-worker"
            self.assertEqual(last["ENTRYPOINT"], f'["/usr/bin/tini", "--", "{program}"]')
            self.assertIn('CMD ["healthcheck"]', last["HEALTHCHECK"])
            self.assertEqual(last["STOPSIGNAL"], "SIGTERM")
            for label in ("title", "description", "version", "revision", "licenses"):
                self.assertIn(f"org.opencontainers.image.{label}=", last["LABEL"])
            self.assertIn("MIT License", (ROOT / "LICENSE").read_text())

    def test_the_environment_is_that_of_the_programs(self):
        for path, lines in self.dockerfiles():
            program = "longhaul-coordinator" if "coordinator" in path.name else "longhaul-worker"
            known = subprocess.run([cluster.BIN / program, "--help"], capture_output=True, text=True, check=True).stdout
            variables = re.findall(r"(LONGHAUL_\w+)=", " ".join(rest for word, rest in lines if word == "ENV"))
            self.assertGreaterEqual(len(variables), 2)
            for variable in variables:
                self.assertIn(variable, known)

    def test_what_the_programs_link_is_installed(self):
        """The package of every library outside /opt/longhaul, on this machine of the same Debian."""
        for image, programs in PROGRAMS.items():
            linked = set()
            for program in programs:
                text = subprocess.run(["ldd", cluster.BIN / program], capture_output=True, text=True, check=True).stdout
                linked |= {os.path.realpath(p) for p in re.findall(r"=> (/(?:usr/)?lib/\S+)", text)}
            owners = subprocess.run(["dpkg", "-S", *linked], capture_output=True, text=True, check=False).stdout
            needed = {line.split(":")[0] for line in owners.splitlines()} - {"libc6", "libgcc-s1", "zlib1g"}  # Of every Debian.
            # What only other packages link comes with them.
            indirect = {"libgrpc29", "libhiredis0.14", "libibverbs1", "libnl-3-200", "libnl-route-3-200"}
            # Of libgnutls30.
            indirect |= {"libffi8", "libgmp10", "libhogweed6", "libidn2-0", "libnettle8", "libp11-kit0", "libtasn1-6",
                         "libunistring2"}
            self.assertEqual(needed - indirect - packages(f"{image}.packages"), set())
            self.assertIn("tini", packages(f"{image}.packages"))

    def test_a_cpu_worker_takes_the_pinned_torch(self):
        pins = [re.search(r"^torch==.*$", path.read_text(), re.MULTILINE)[0] for path in (ROOT / "deploy/requirements.txt", IMAGES / "requirements-cpu.txt")]
        self.assertEqual(pins[0], pins[1])
        # And of the CUDA toolkit the versions that come with that torch.
        venv = subprocess.run([ROOT / "deploy/setup.sh", "--print-venv"], capture_output=True, text=True, check=True).stdout.strip()
        listed = subprocess.run([f"{venv}/bin/pip", "list", "--format", "freeze"], capture_output=True, text=True, check=True).stdout.split()
        self.assertLessEqual(set(re.findall(r"^nvidia-.*$", (IMAGES / "requirements-cpu.txt").read_text(), re.MULTILINE)), set(listed))

    def test_workers_take_the_tokenizers_that_are_tested(self):
        pins = [dict(re.findall(r"^([\w-]+)==(\S+)", path.read_text(), re.MULTILINE))
                for path in (IMAGES / "requirements-tokenizers.txt", ROOT / "tests/integration/data/requirements.txt")]
        self.assertEqual({name: pins[1].get(name, version) for name, version in pins[0].items()}, pins[0])
        extras = re.findall(r'^(?:tokenize|chat) = \[(.*)\]$', (ROOT / "deploy/python/pyproject.toml").read_text(), re.MULTILINE)
        self.assertEqual(len(extras), 2)
        self.assertLessEqual(set(re.findall(r'"([\w-]+)', " ".join(extras))), set(pins[0]))
        self.assertIn("python3", packages("worker.packages"))
        for image in ("worker", "worker-cuda"):
            self.assertIn("/src/deploy/images/tokenizers.sh", (IMAGES / f"{image}.Dockerfile").read_text())

    def test_scripts_are_sound(self):
        for script in [IMAGES / "build.sh", IMAGES / "install.sh", IMAGES / "tokenizers.sh", IMAGES / "healthcheck", ROOT / "tests/deploy/run.sh"]:
            subprocess.run(["bash", "-n", script], check=True)
            self.assertTrue(os.access(script, os.X_OK), script)

    def test_compose_names_what_is_there(self):
        text = (ROOT / "deploy/compose.yaml").read_text()
        for path in re.findall(r'"\./([\w/.-]+):', text):
            self.assertTrue((ROOT / "deploy" / path).exists(), path)
        for path in re.findall(r"dockerfile: (\S+?)}", text):
            self.assertTrue((ROOT / path).exists(), path)
        targets = set(re.findall(r'"([\w-]+):70\d\d"', (ROOT / "deploy/prometheus/prometheus.yaml").read_text()))
        services = set(re.findall(r"^  ([\w-]+):$", text, re.MULTILINE))
        self.assertLessEqual(targets, services)
        for variable in set(re.findall(r"(LONGHAUL_\w+):", text)):
            helps = [subprocess.run([cluster.BIN / p, "--help"], capture_output=True, text=True, check=True).stdout for p in ("longhaul-worker", "longhaul-coordinator")]
            self.assertIn(variable, "".join(helps))

    def test_compose_is_what_its_specification_says(self):
        check = pathlib.Path(tools.environment(pathlib.Path(__file__).with_name("requirements.txt"))).with_name("check-jsonschema")
        right = (ROOT / "deploy/compose.yaml").read_text()
        for text, words in ((right, "ok -- validation done"), (right.replace("read_only", "read_onyl"), "'read_onyl' was unexpected"),
                            (right.replace("service_healthy", "service_well"), "'service_well' is not one of"), (right.replace("[ALL]", "ALL"), "is not of type")):
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as compose:
                compose.write(text)
                compose.flush()
                result = subprocess.run([check, "--builtin-schema", "vendor.compose-spec", compose.name], capture_output=True, text=True, check=False)
                self.assertEqual(result.returncode, 0 if text == right else 1, result.stdout + result.stderr)
                self.assertIn(words, result.stdout)

    def test_logs_of_containers_are_bounded(self):
        """An engine keeps the lines of a container for ever, unless it is told otherwise."""
        compose, page = (ROOT / "deploy/compose.yaml").read_text(), (ROOT / "docs/deploy/two-machines.md").read_text()
        self.assertEqual(compose.count("logging: {driver: json-file, options: {max-size: "), compose.count("restart: unless-stopped"))
        runs = re.findall(r"^docker run .*?(?<!\\)$", page, re.MULTILINE | re.DOTALL)
        self.assertEqual(len(runs), 2)
        for run in runs:
            self.assertIn("--log-opt max-size=", run)

    def compose_services(self):
        """name -> service, with anchors resolved."""
        python = tools.environment(pathlib.Path(__file__).with_name("requirements.txt"))
        script = "import json, sys, ruamel.yaml; print(json.dumps(ruamel.yaml.YAML(typ='safe', pure=True).load(sys.stdin)))"
        result = subprocess.run([python, "-c", script], input=(ROOT / "deploy/compose.yaml").read_text(), capture_output=True, text=True, check=True)
        return json.loads(result.stdout)["services"]

    def test_every_program_listens_with_the_environment_of_its_service(self):
        """Beyond localhost the programs want TLS, or to be told that the network is private: without that word of the file they refuse."""
        services = self.compose_services()
        for name in ("coordinator", "site-a", "site-b"):
            image = "coordinator" if name == "coordinator" else "worker"
            of_image = dict(word.split("=", 1) for instruction, rest in instructions(IMAGES / f"{image}.Dockerfile") if instruction == "ENV" for word in rest.split())
            given = {**of_image, **services[name]["environment"]}
            self.assertTrue(any(value.startswith("0.0.0.0:") for value in given.values()), given)
            for insecure in (True, False):
                with self.subTest(name, insecure=insecure), tempfile.TemporaryDirectory() as folder:
                    self.assert_starts(f"longhaul-{image}", given, folder, insecure)

    def test_the_recipe_of_apptainer_starts_a_worker(self):
        """Apptainer is no package of Debian 12: this does what it does with the recipe, with the image's environment and the script's lines."""
        recipe = (ROOT / "deploy/slurm/worker.def").read_text()
        self.assertEqual(re.findall(r"^(\w+): (.*)$", recipe, re.MULTILINE), [("Bootstrap", "oci-archive"), ("From", "longhaul-worker.tar")])
        self.assertIn("oci-archive:longhaul-worker.tar", recipe)
        self.assertEqual(re.findall(r"^%(\w+)", recipe, re.MULTILINE), ["runscript"])
        of_image = dict(word.split("=", 1) for name, rest in instructions(IMAGES / "worker.Dockerfile") if name == "ENV" for word in rest.split())
        # Of the host; what the image sets comes beside it, unless the host sets it.
        for of_host, listen in (({}, None), ({"LONGHAUL_HTTP_LISTEN": "127.0.0.1:0"}, "127.0.0.1:0")):
            environment = {"PATH": f"{cluster.BIN}:{os.environ['PATH']}", **of_image, **of_host}
            started = subprocess.run(["/bin/sh", "-c", script_of_apptainer(), "worker.sif", "--pool", "site-a", "--coordinator", "localhost:1", "--print-config"],
                                     env=environment, capture_output=True, text=True, check=False)
            self.assertEqual(started.returncode, 0, started.stderr)
            self.assertIn("pool: site-a", started.stdout)
            self.assertEqual(next(iter(re.findall(r"^http-listen: (\S+)", started.stdout, re.MULTILINE)), None), listen, started.stdout)

    def assert_starts(self, program, given, folder, insecure):
        # Ports of this machine, and folders of this test.
        environment = {name: re.sub(r"^0\.0\.0\.0:\d+$", "0.0.0.0:0", value) for name, value in given.items()}
        environment.update({name: folder for name, value in given.items() if name.endswith("_DIR") and value.startswith("/")})
        if not insecure:
            environment.pop("LONGHAUL_INSECURE")
        process = subprocess.Popen([cluster.BIN / program], cwd=folder, env={"PATH": os.environ["PATH"], "HOME": folder, **environment},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            lines = []
            for line in process.stderr:
                lines.append(line)
                if re.search(SERVES, line):
                    break
            said = "".join(lines)
            if insecure:
                self.assertRegex(lines[-1], SERVES)
            else:
                self.assertNotEqual(process.wait(20), 0, said)
                self.assertIn("insecure", said)
        finally:
            process.kill()
            process.wait()
            process.stderr.close()


if __name__ == "__main__":
    cluster.main()
