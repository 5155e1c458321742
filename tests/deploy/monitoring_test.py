"""Alerts, boards and metrics against promtool and a real Prometheus that scrapes a live job.

    monitoring_test.py BUILD/bin [unittest arguments]
"""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration/processes"))
import cluster  # noqa: E402  (reads the first argument)
import tools  # noqa: E402
from prometheus import Prometheus  # noqa: E402

RULES = ROOT / "deploy/prometheus/rules/longhaul.yaml"
BOARDS = ROOT / "deploy/grafana/dashboards"
STEPS = 2500
# What a job of two pools of one rank with exact partitions, without guard.outer, does not have.
MAY_BE_EMPTY = ("job_findings", "pool_left_out_rounds_total", "in_pool_received_bytes_total", "in_pool_nmse_ratio", "refused_streams_total", "refused_uploads_total")


# Series that begin with what they count.
ONLY_WHEN_IT_HAPPENS = ("inner_state_step", "job_findings", "job_forecast", "pool_late_rounds_total", "pool_left_out_rounds_total")
# TokenTest has certificates and tokens.
ONLY_WITH_TLS = ("certificate_expiry_timestamp_seconds", "tls_files_refused", "tokens_refused")


def queries_of(board):
    return [(p["title"], t["expr"]) for p in board["panels"] for t in p["targets"]]


class RulesTest(unittest.TestCase):
    def promtool(self, *arguments):
        result = subprocess.run([tools.program("promtool", "prometheus"), *arguments], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_rules_and_configuration_are_sound(self):
        self.promtool("check", "rules", RULES)
        self.promtool("check", "config", ROOT / "deploy/prometheus/prometheus.yaml")

    def test_each_alert_fires_when_it_should(self):
        cases = ROOT / "deploy/prometheus/tests/longhaul_test.yaml"
        # promtool compares all annotations: the cases have the summaries, in which there are values.
        with tempfile.TemporaryDirectory() as folder:
            for path, text in (("rules/longhaul.yaml", re.sub(r"\n +(description|runbook_url): .*", "", RULES.read_text())), ("tests/longhaul_test.yaml", cases.read_text())):
                (pathlib.Path(folder) / path).parent.mkdir()
                (pathlib.Path(folder) / path).write_text(text)
            self.promtool("test", "rules", pathlib.Path(folder) / "tests/longhaul_test.yaml")
        alerts = set(re.findall(r"alert: (\w+)", RULES.read_text()))
        self.assertEqual(alerts, set(re.findall(r"alertname: (\w+)\n\s+exp_alerts", cases.read_text())))

    def test_alerts_look_at_series_that_there_are(self):
        """LiveJobTest compares the reference with a live job."""
        known = set(re.findall(r"^\| `(longhaul_\w+)`", (ROOT / "docs/reference.md").read_text(), re.MULTILINE))
        used = set(re.findall(r"longhaul_\w+", RULES.read_text()))
        self.assertEqual({re.sub(r"_bucket$", "", name) for name in used} - known, set())

    def test_each_alert_has_what_those_who_are_called_need(self):
        """A severity that routes know, a description, and the address of its entry in the runbook, which names the same severity."""
        runbook = ROOT / "docs/operate/runbook.md"
        entries = dict(re.findall(r"^#+ (Longhaul\w+)\n+- \*Means\*: \((\w+)\) ", runbook.read_text(), re.MULTILINE))
        alerts = re.split(r"\n      - alert: ", RULES.read_text())[1:]
        found = {}
        for text in alerts:
            name = text.split("\n")[0]
            fields = dict(re.findall(r"^ {10}(summary|description|runbook_url): (.*)$", text, re.MULTILINE))
            self.assertEqual(list(fields), ["summary", "description", "runbook_url"], name)
            # No values: it is the same wherever it is read.
            self.assertRegex(fields["description"], r'^"[A-Za-z][^{}"]{30,200}\."$', name)
            self.assertRegex(fields["runbook_url"], rf'^"https://\S+/{runbook.relative_to(ROOT)}#{name.lower()}"$', name)
            [found[name]] = re.findall(r"labels: \{severity: (critical|warning)\}", text)
        self.assertEqual(list(found.items()), list(entries.items()))

    def test_boards_are_those_of_their_script(self):
        path = ROOT / "deploy/grafana/make_dashboards.py"
        spec = importlib.util.spec_from_file_location("make_dashboards", path)
        script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        boards = script.make()
        self.assertEqual(sorted(boards), sorted(p.name for p in BOARDS.iterdir()))
        for name, board in boards.items():
            self.assertEqual((BOARDS / name).read_text(), script.text(board), f"run {path}")


class TokenTest(unittest.TestCase):
    def test_prometheus_is_let_in_with_a_token_alone(self):
        closed = cluster.Cluster()
        self.addCleanup(closed.close)
        token = closed.start_closed_coordinator()
        for token_file, up in ((token, 1), (None, 0)):
            prometheus = Prometheus({"longhaul-coordinator": [closed.http]}, RULES, token_file)
            self.addCleanup(prometheus.close)
            prometheus.await_value("up", lambda value, up=up: value == up, 60)
            if up:  # Issued for a year.
                prometheus.await_value("longhaul_coordinator_tokens_refused", lambda refused: refused == 0, 30)
                prometheus.await_value("longhaul_coordinator_certificate_expiry_timestamp_seconds - time()", lambda left: 0 < left < 366 * 86400, 30)


class LiveJobTest(cluster.ClusterTest):
    def setUp(self):
        super().setUp()
        workers = []
        for pool in ("site-a", "site-b"):
            self.cluster.start_worker(pool, 1, "--http-listen", "127.0.0.1:0")
            cluster.wait_until(lambda p=pool: "metrics at http://" in self.cluster.log(p), 30, f"the metrics of {pool}")
            workers.append(re.search(r"metrics at http://([^/]+)/", self.cluster.log(pool))[1])
        self.prometheus = Prometheus({"longhaul-coordinator": [self.cluster.http], "longhaul-worker": workers}, RULES)
        self.addCleanup(self.prometheus.close)

    def test_prometheus_has_what_the_job_reports(self):
        self.assertEqual(self.cluster.submit(steps=STEPS, sets=["sync.up.codec=sign1"]).returncode, 0)
        # Rates need some samples.
        self.prometheus.await_value('count_over_time(longhaul_coordinator_rounds_total{kind="outer"}[1m])', lambda samples: samples >= 6, 120)
        self.prometheus.await_value("count_over_time(longhaul_coordinator_eval_loss_nats[1m])", lambda samples: samples >= 2, 60)
        self.check_boards()
        self.check_labels()
        self.check_reference()
        self.cluster.wait_job(seconds=240)
        with urllib.request.urlopen(f"http://{self.cluster.http}/api/v1/job?name=tiny", timeout=10) as answer:
            self.check_totals(json.loads(answer.read())["job"])

    def check_boards(self):
        """Every query of every board is one that Prometheus takes, and shows something."""
        for path in sorted(BOARDS.glob("*.json")):
            for title, expression in queries_of(json.loads(path.read_text())):
                asked = expression.replace("$job_name", "tiny").replace("$__rate_interval", "15s")
                with self.subTest(board=path.stem, panel=title):
                    self.prometheus.query(asked)
                    if not any(name in expression for name in (*MAY_BE_EMPTY, *ONLY_WITH_TLS)):
                        cluster.wait_until(lambda: self.prometheus.query(asked), 30, asked)  # noqa: B023

    def check_labels(self):
        self.assertEqual(self.prometheus.value('sum(up{job=~"longhaul-.*"})'), 3)
        ours = self.prometheus.get("series", **{"match[]": '{__name__=~"longhaul_.+"}'})
        self.assertGreater(len(ours), 100)
        renamed = [s for s in ours if any(label.startswith("exported_") for label in s)]
        self.assertEqual(renamed, [])
        self.assertEqual({s["job_name"] for s in ours if "job_name" in s} - {"", "tiny"}, set())
        self.assertEqual(self.prometheus.value('count(longhaul_coordinator_build_info) + count(longhaul_worker_build_info)'), 3)
        alive, participating = (self.prometheus.value(f'longhaul_coordinator_job_pools{{state="{s}"}}') for s in ("alive", "participating"))
        self.assertEqual((alive, participating), (2, 2))
        self.prometheus.await_value("avg(longhaul_coordinator_outer_gradient_cosine_ratio)", lambda cosine: 0 < cosine <= 1, 30)
        self.prometheus.await_value('longhaul_coordinator_pool_error_feedback_norm{pool="site-a"}', lambda norm: norm > 0, 30)

    def check_reference(self):
        """docs/reference.md has every series of ours, and none that is not there."""
        about = self.prometheus.get("metadata", limit="10000")
        shown = {name for name in about if name.startswith("longhaul_")}
        table = (ROOT / "docs/reference.md").read_text().split("\n## Metrics\n")[1]
        rows = {name: (kind, meaning) for name, kind, meaning in re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \|$", table, re.MULTILINE)}
        self.assertEqual(shown - set(rows), set())
        self.assertEqual({n for n in set(rows) - shown if not any(name in n for name in (*MAY_BE_EMPTY, *ONLY_WHEN_IT_HAPPENS, *ONLY_WITH_TLS))}, set())
        for name in shown:
            self.assertEqual(rows[name][0], about[name][0]["type"], name)
            self.assertEqual(rows[name][1].replace("&lt;", "<").replace("\\|", "|"), about[name][0]["help"], name)

    def check_totals(self, job):
        """The series of an ended job stay for a minute."""
        tokens = int(job["tokens"])  # 64-bit numbers are strings in proto JSON.
        self.assertEqual(self.prometheus.await_value("longhaul_coordinator_job_tokens_total", lambda t: t >= tokens, 20), tokens)
        expected = {
            "longhaul_coordinator_job_inner_step": job["inner_step"],
            "longhaul_coordinator_job_steps": STEPS,
            "longhaul_coordinator_job_contributed_tokens_total": job["contributed_tokens"],
            "longhaul_coordinator_eval_loss_nats": job["eval_loss"]["last"],
            'sum(longhaul_coordinator_rounds_total{kind!="seed"})': sum(int(f["rounds_committed"]) for f in job["fragments"]),
            'sum(longhaul_coordinator_wire_bytes_total{job_name="tiny",direction="up"})': job["wire_bytes"]["up_total"],
            'sum(longhaul_coordinator_wire_payload_bytes_total{job_name="tiny",direction="down"})': job["wire_bytes"]["down_payload"],
            'longhaul_coordinator_jobs{state="COMPLETED"}': 1,
        }
        for pool in job["pools"]:
            of_pool = '{pool="%s"}' % pool["pool"]
            expected[f"longhaul_coordinator_pool_tokens_total{of_pool}"] = pool["tokens"]
            expected[f"longhaul_worker_pool_tokens_total{of_pool}"] = pool["tokens"]
            expected[f"longhaul_coordinator_pool_train_loss_nats{of_pool}"] = pool["train_loss"]
            expected[f"longhaul_worker_pool_train_loss_nats{of_pool}"] = pool["train_loss"]
            expected[f'longhaul_coordinator_pool_training_seconds_total{{activity="compute",pool="{pool["pool"]}"}}'] = pool["compute_seconds"]
        for expression, value in expected.items():
            value = float(value)
            with self.subTest(expression):
                self.assertAlmostEqual(self.prometheus.await_value(expression, lambda v, e=value: abs(v - e) <= 1e-6 * abs(e), 10), value, delta=1e-6 * abs(value))


if __name__ == "__main__":
    cluster.main()
