"""A Prometheus on localhost, for tests: scrapes the given targets each second. Ends with the test."""

import json
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

import cluster
import tools


class Prometheus:
    def __init__(self, targets, rules, token_file=None):
        """targets: addresses by scrape job. token_file: what it shows them."""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-prometheus-"))
        config = self.folder / "prometheus.yaml"
        config.write_text(json.dumps({  # JSON is YAML.
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}, "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": name, **({"authorization": {"credentials_file": str(token_file)}} if token_file else {}), "static_configs": [{"targets": addresses}]} for name, addresses in targets.items()]}))
        self.address = f"127.0.0.1:{cluster.free_port()}"  # Prometheus cannot choose a port itself.
        self.log = open(self.folder / "log", "wb")
        self.process = subprocess.Popen(
            [tools.program("prometheus", "prometheus"), f"--config.file={config}", f"--storage.tsdb.path={self.folder}/data",
             f"--web.listen-address={self.address}"], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def get(self, path, **parameters):
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=10) as answer:
            return json.loads(answer.read())["data"]

    def query(self, expression):
        """The series, as (labels, value)."""
        return [(item["metric"], float(item["value"][1])) for item in self.get("query", query=expression)["result"]]

    def value(self, expression):
        """The only one, or None."""
        series = self.query(expression)
        if len(series) > 1:
            raise AssertionError(f"{expression} has {len(series)} series: {series}")
        return series[0][1] if series else None

    def await_value(self, expression, condition, seconds):
        deadline = time.monotonic() + seconds
        while True:
            try:
                value = self.value(expression)
                if value is not None and condition(value):
                    return value
            except OSError:  # It does not listen yet.
                value = None
            if time.monotonic() > deadline:
                raise AssertionError(f"{expression} was {value} after {seconds} s: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)
