"""Forecasts of jobs: at submit, and against what was measured while they run and at their end."""

import json
import urllib.request

from cluster import ClusterTest, main, wait_until

TERMS = {"compute_seconds", "copying_seconds", "wait_seconds", "evaluation_seconds", "utilization", "tokens_per_second", "job_seconds"}


class ForecastTest(ClusterTest):
    def test_a_job_is_forecast_and_the_forecast_is_compared_with_the_run(self):
        nobody = self.cluster.submit("lonely", pools=1)
        self.assertEqual(nobody.returncode, 0, nobody.stderr)
        self.assertIn("forecast: none, since no pool is connected", nobody.stderr)
        self.cluster.cli("cancel", "lonely")
        self.cluster.start_worker("site-a", 1)
        self.cluster.start_worker("site-b", 1)
        wait_until(lambda: len(json.loads(self.cluster.cli("pools", "-o", "json").stdout or '{"data": []}')["data"]) == 2, 30, "two pools")

        submitted = self.cluster.submit(steps=300)
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        lines = [line for line in submitted.stderr.splitlines() if line.startswith("forecast: ")]
        self.assertEqual(len(lines), 3, submitted.stderr)
        self.assertIn("the job takes", lines[0])
        self.assertIn("the coordinator", lines[1])
        self.assertIn("assumed, since not measured: ", lines[2])

        job = self.cluster.wait_job()
        check = job["forecast"]
        self.assertEqual(check["pools"], 2)
        self.assertTrue(check["assumptions"])
        terms = {term["name"]: term for term in check["terms"]}
        self.assertEqual(set(terms), TERMS)
        for name, term in terms.items():
            self.assertIsNotNone(term["measured"], name)
        self.assertAlmostEqual(terms["utilization"]["measured"], job["utilization"], places=2)
        # Nobody had measured this machine, so some term is wrong; the answer says which.
        if check["wrong"]:
            self.assertIn(check["wrong"], TERMS)
            self.assertIn("was forecast", check["finding"])
        text = self.cluster.cli("get", "tiny").stdout
        self.assertIn("EXPECTED", text)
        self.assertIn("MEASURED", text)

        # The next job of these pools is forecast by what they did in this one.
        planned = json.loads(self.cluster.cli("plan", "-f", self.cluster.folder / "tiny.yaml", "-o", "json").stdout)["data"]
        measured = self.trained(job) >= 5
        self.assertEqual(measured, not any("TFLOP/s" in text for text in planned["assumptions"]))

    @staticmethod
    def trained(job):
        return min(pool["compute_seconds"] for pool in job["pools"])

    def test_metrics_and_page_have_it_while_the_job_runs_and_after_a_restart(self):
        self.cluster.start_worker("site-a", 1)
        self.cluster.submit(steps=1_000_000, pools=1)
        wait_until(lambda: self.measured("longhaul_coordinator_job_forecast_measured"), 60, "a measured forecast")
        self.assertTrue(self.measured("longhaul_coordinator_job_forecast"))
        page = json.loads(self.read("api/v1/job?name=tiny"))["job"]["forecast"]
        self.assertEqual({term["name"] for term in page["terms"]}, TERMS)
        made = page["made_at"]
        self.cluster.coordinator.terminate()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        wait_until(lambda: (self.cluster.job() or {}).get("forecast"), 60, "the forecast after the restart")
        self.assertEqual(json.loads(self.read("api/v1/job?name=tiny"))["job"]["forecast"]["made_at"], made)

    def read(self, page):
        return urllib.request.urlopen(f"http://{self.cluster.http}/{page}", timeout=5).read().decode()

    def measured(self, name):
        return any(line.startswith(name + "{") and 'term="utilization"' in line for line in self.read("metrics").splitlines())


if __name__ == "__main__":
    main()
