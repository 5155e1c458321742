"""The Helm chart, rendered by Helm's own template engine, and the plain manifests made of it.

    chart_test.py BUILD/bin [unittest arguments]
"""

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

HELM, PLAIN = ROOT / "deploy/helm", ROOT / "deploy/kubernetes"
GO = ["golang-1.19-go", "golang-1.19-src", "golang-github-masterminds-sprig-dev", "golang-github-masterminds-goutils-dev",
      "golang-github-masterminds-semver-dev", "golang-github-google-uuid-dev", "golang-github-huandu-xstrings-dev", "golang-github-imdario-mergo-dev",
      "golang-github-mitchellh-copystructure-dev", "golang-github-mitchellh-reflectwalk-dev", "golang-github-shopspring-decimal-dev",
      "golang-github-spf13-cast-dev", "golang-golang-x-crypto-dev", "golang-gopkg-yaml.v3-dev", "golang-github-xeipuuv-gojsonschema-dev",
      "golang-github-xeipuuv-gojsonpointer-dev", "golang-github-xeipuuv-gojsonreference-dev"]


def setUpModule():
    root = tools.unpack(GO)
    os.environ.update(GO=str(root / "usr/lib/go-1.19/bin/go"), GOROOT=str(root / "usr/lib/go-1.19"), GOPATH=str(root / "usr/share/gocode"),
                      GOCACHE=str(tools.cache() / "go-build"))


def render(*values):
    return subprocess.run([HELM / "render.sh", "longhaul", *values], capture_output=True, text=True, check=False)


def validate(*arguments):
    python = tools.environment(pathlib.Path(__file__).with_name("requirements.txt"))
    return subprocess.run([python, "-B", pathlib.Path(__file__).with_name("validate_manifests.py"), *arguments], capture_output=True, text=True, check=False)


class ChartTest(unittest.TestCase):
    def test_the_plain_manifests_are_those_of_the_chart(self):
        sets = {"longhaul.yaml": [], **{p.name: [p] for p in (HELM / "values").glob("*.yaml")}}
        self.assertGreaterEqual(len(sets), 4)
        self.assertEqual(sorted(sets), sorted(p.name for p in PLAIN.glob("*.yaml")))
        for name, values in sets.items():
            rendered = render(*values)
            self.assertEqual(rendered.returncode, 0, rendered.stderr)
            self.assertEqual((PLAIN / name).read_text().split("\n", 1)[1], rendered.stdout, "run deploy/helm/render.sh --write")

    def test_users_and_groups_may_be_left_to_the_platform(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as values:
            values.write("securityContext: {fixedIds: false}\n")
            values.flush()
            rendered = render(values.name)
        self.assertEqual(rendered.returncode, 0, rendered.stderr)
        for word in ("runAsUser", "runAsGroup", "fsGroup:", "10001"):
            self.assertNotIn(word, rendered.stdout)
        self.assertEqual(rendered.stdout.count("runAsNonRoot: true"), 2)

    def test_kubernetes_takes_every_object(self):
        result = validate("manifests", *PLAIN.glob("*.yaml"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_the_check_finds_a_wrong_object(self):
        for right, wrong, words in (("replicas: 1", "replicas: two", "'two' is not of type 'integer'"), ("fsGroup:", "fsGruppe:", "'fsGruppe' was unexpected")):
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as manifests:
                manifests.write((PLAIN / "longhaul.yaml").read_text().replace(right, wrong))
                manifests.flush()
                self.assertIn(words, validate("manifests", manifests.name).stdout)

    def test_the_schema_takes_the_values_and_refuses_others(self):
        schema = HELM / "longhaul/values.schema.json"
        for path in [HELM / "longhaul/values.yaml", *(HELM / "values").glob("*.yaml")]:
            result = validate("values", schema, path)
            self.assertEqual(result.returncode, 0, f"{path}: {result.stdout}{result.stderr}")
        for text, words in (("pool: {nodes: 0}", "pool.nodes: 0 is less than the minimum of 1"), ("pool: {rnaks: 2}", "'rnaks' was unexpected"),
                            ("pool: {device: tpu}", "'tpu' is not one of ['cpu', 'cuda']"), ("coordinator: {lease: ten}", "'ten' does not match")):
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as values:
                values.write(text)
                values.flush()
                refused = validate("values", schema, values.name)
                self.assertEqual(refused.returncode, 1)
                self.assertIn(words, refused.stdout)

    def test_without_helm_values_out_of_schema_are_refused_as_by_helm(self):
        for text, words in (("pool: {nodes: 0, rnaks: 2}", ["pool.nodes: Must be greater than or equal to 1", "pool: Additional property rnaks is not allowed"]),
                            ("pool: {device: tpu}", ['pool.device: pool.device must be one of the following: "cpu", "cuda"']),
                            ("coordinator: {lease: ten}", ["coordinator.lease: Does not match pattern"]), ("coordinator: yes", ["coordinator: Invalid type. Expected: object"]),
                            ("coordinatr: {}", ["(root): Additional property coordinatr is not allowed"]), ("[1]", ["the values are not a map"]),
                            ("pool: {", ["yaml: line 1"])):
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as values:
                values.write(text)
                values.flush()
                refused = render(values.name)
                self.assertEqual((refused.returncode, refused.stdout), (4, ""), refused.stderr)
                for each in words:
                    self.assertIn(each, refused.stderr)
                self.assertIn(values.name, refused.stderr)
                self.assertIn("longhaul/values.yaml has every value", refused.stderr)
        missing = render("/nowhere.yaml")
        self.assertEqual(missing.returncode, 4)
        self.assertIn("/nowhere.yaml: no such file", missing.stderr)

    def test_a_pool_without_a_coordinator_is_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as values:
            values.write("coordinator: {enabled: false}")
            values.flush()
            result = render(values.name)
        self.assertEqual(result.returncode, 1)
        self.assertIn("pool.coordinator: HOST:PORT is required", result.stderr)

    def test_a_pool_with_a_volume_keeps_its_tokens_there(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as values:
            values.write("pool: {state: {enabled: true}}")
            values.flush()
            kept = render(values.name).stdout
        self.assertIn("{name: LONGHAUL_WORK_DIR, value: /state/work}", kept)
        self.assertIn("{name: state, mountPath: /state}", kept)
        self.assertNotIn("LONGHAUL_WORK_DIR", render().stdout)

    def test_tokens_need_tls_and_keep_prometheus_out_without_one(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as values:
            values.write("tokens: {secret: longhaul-tokens}")
            values.flush()
            result = render(values.name)
        self.assertEqual(result.returncode, 1)
        self.assertIn("tokens.secret needs tls.coordinatorSecret", result.stderr)
        site = (PLAIN / "coordinator-site.yaml").read_text()
        self.assertIn("LONGHAUL_TOKENS, value: /tokens/tokens", site)
        self.assertIn("authorization: {type: Bearer, credentials:", site)
        self.assertNotIn("LONGHAUL_INSECURE", site)

    def test_programs_know_every_flag_and_variable(self):
        for name, component in (("worker", "pool"), ("coordinator", "coordinator")):
            known = subprocess.run([cluster.BIN / f"longhaul-{name}", "--help"], capture_output=True, text=True, check=True).stdout
            text = (HELM / f"longhaul/templates/{component}.yaml").read_text()
            for flag in re.findall(r"(?:- |\[)(--[a-z-]+)", text):
                self.assertRegex(known, rf"{flag}\b")
            variables = re.findall(r"LONGHAUL_[A-Z_]+", text + (HELM / "longhaul/templates/_helpers.tpl").read_text())
            self.assertGreater(len(variables), 4)
            for variable in variables:
                self.assertIn(variable, known)

    def test_images_and_alerts_have_the_names_of_the_tree(self):
        built = {p.name.split(".")[0] for p in (ROOT / "deploy/images").glob("*.Dockerfile")}
        text = "".join(p.read_text() for p in PLAIN.glob("*.yaml"))
        used = set(re.findall(r"/longhaul-([a-z-]+):", text))
        self.assertEqual(used, built)
        jobs = set(re.findall(r"replacement: (longhaul-\w+)", text))
        self.assertEqual(jobs, set(re.findall(r"job_name: (\S+)", (ROOT / "deploy/prometheus/prometheus.yaml").read_text())))
        version = (ROOT / "VERSION").read_text().strip()
        self.assertEqual(re.findall(r'[vV]ersion: "?([\d.]+)"?$', (HELM / "longhaul/Chart.yaml").read_text(), re.MULTILINE), [version, version])


if __name__ == "__main__":
    cluster.main()
