"""The status page in a headless Chromium, beside a live job: what it shows is what the job reports; light and dark, desk and phone. Needs the Debian
packages chromium and fonts-dejavu-core.

    page_test.py BUILD/bin [unittest arguments]        PAGE_SHOTS=FOLDER keeps the screenshots to look at
"""

import base64
import html.parser
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration/processes"))
import cluster  # noqa: E402  (reads the first argument)

DESK, PHONE = (1100, 1500), (390, 844)


class Text(html.parser.HTMLParser):
    """The visible words of each element that has an id."""

    def __init__(self, page):
        super().__init__()
        self.open, self.of = [], {}
        self.tags = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in ("meta", "link", "br", "hr", "input", "img"):
            self.open.append((tag, dict(attributes).get("id")))

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for _, name in self.open:
            if name and data.strip():
                self.of.setdefault(name, []).append(data.strip())


class Browser:
    """A headless Chromium that is driven: DevTools messages over a pair of pipes, each ended by a zero."""

    def __init__(self, program, url):
        to_read, self.out = os.pipe()
        self.back, to_write = os.pipe()
        # Its helpers may still write when it is gone.
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        launch = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", launch, "bash", str(to_read), str(to_write), program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe", "--window-size=700,500"],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.sent, self.rest, self.session = 0, b"", None
        target = self.ask("Target.createTarget", url=url)["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.back)
        self.profile.cleanup()

    def ask(self, method, **parameters):
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": parameters, **({"sessionId": self.session} if self.session else {})}
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                received = os.read(self.back, 1 << 16)
                if not received:
                    raise AssertionError("the browser ended")
                self.rest += received
            text, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self.sent:
                return answer["result"]

    def run(self, script):
        return self.ask("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def become(self, size, scheme):
        """A screen of this size, of a person who prefers this scheme (light, dark)."""
        self.ask("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=size[0] < 600)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def shot(self, path):
        """Of the whole page."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]))


def chromium():
    program = shutil.which("chromium")
    if not program:
        raise AssertionError("the Debian package chromium is not installed")
    return program


class FakeCoordinator(http.server.ThreadingHTTPServer):
    """The page's files, and reports as a test writes them."""

    def __init__(self, overview, details, curves=()):
        page = ROOT / "coordinator/service/page"
        by_name = {name: detail for detail in details for name in (detail["job"]["id"], detail["job"].get("spec", {}).get("name"))}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path, _, query = self.path.partition("?")
                name = urllib.parse.parse_qs(query).get("name", [""])[0]
                if path == "/api/v1/overview":
                    self.answer("application/json", json.dumps(overview).encode())
                elif path == "/api/v1/job" and name in by_name:
                    self.answer("application/json", json.dumps(by_name[name]).encode())
                elif path == "/api/v1/curves" and urllib.parse.parse_qs(query).get("job", [""])[0] in dict(curves):
                    self.answer("application/json", json.dumps({"curves": dict(curves)[urllib.parse.parse_qs(query)["job"][0]]}).encode())
                elif path == "/api/v1/job" and name == "busy-1":
                    self.send_error(503)
                elif path in ("/", "/status.css", "/status.js"):
                    file = page / (path[1:] or "index.html")
                    self.answer({".html": "text/html", ".css": "text/css", ".js": "text/javascript"}[file.suffix], file.read_bytes())
                else:
                    self.send_error(404)

            def answer(self, kind, body):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()


class PartsTest(unittest.TestCase):
    """Reports of which the page is not to expect too much."""

    def show(self, overview, details, curves=()):
        server = FakeCoordinator(overview, details, curves)
        self.addCleanup(server.close)
        self.browser = Browser(chromium(), f"http://127.0.0.1:{server.server_port}/")
        self.addCleanup(self.browser.close)
        self.await_title("runs running")

    def text(self, name):
        """Empty before the page is there."""
        return self.browser.run(f"(document.getElementById('{name}') || {{}}).textContent") or ""

    def await_title(self, words):
        cluster.wait_until(lambda: self.text("job-title") == words, 30, words)
        self.assertIn("ready", self.text("health"))

    NOW = {"version": "1", "now": "2026-01-01T00:01:00Z", "started_at": "2026-01-01T00:00:00Z"}
    RUNS = {"id": "runs-1", "state": "RUNNING", "spec": {"name": "runs", "train": {"steps": 10}}, "inner_step": "5"}

    def test_a_job_without_a_readable_spec_hides_no_other(self):
        hurt = {"id": "hurt-1", "state": "QUARANTINED", "error": {"message": "its spec is damaged"}}
        named = {"id": "half-1", "state": "QUARANTINED", "spec": {"name": "half"}}
        pools = [{"name": "site-a", "state": "IDLE", "set_aside": [{"job": "half"}]}]
        rounds = [{"fragment": 0, "kind": "seed", "pools": [{"pool": "site-a"}]}]
        self.show({**self.NOW, "jobs": [hurt, named, self.RUNS], "pools": pools},
                  [{"job": self.RUNS, "rounds": rounds, "events": [{"message": "bare"}]}, {"job": {**named, "set_aside": [{"pool": "site-a"}]}}, {"job": hurt}])
        self.assertIn("5 / 10", self.text("jobs"))
        self.assertIn("half: no reason is known", self.text("pools"))
        self.browser.run("location.hash = 'half'")
        self.await_title("half quarantined")
        self.browser.run("location.hash = 'hurt-1'")
        self.await_title("hurt-1 quarantined")
        self.assertEqual(self.text("notice"), "its spec is damaged")

    def test_the_overview_is_shown_without_the_report_of_a_job(self):
        server = FakeCoordinator({**self.NOW, "jobs": [{**self.RUNS, "id": "busy-1"}]}, [])
        self.addCleanup(server.close)
        self.browser = Browser(chromium(), f"http://127.0.0.1:{server.server_port}/")
        self.addCleanup(self.browser.close)
        cluster.wait_until(lambda: "does not answer" in self.text("health"), 30, "the failure")
        self.assertIn("runs", self.text("jobs"))

    def test_a_job_that_the_overview_leaves_out_has_its_address(self):
        old = {"id": "old-1", "state": "COMPLETED", "spec": {"name": "old", "train": {"steps": 10}}}
        self.show({**self.NOW, "jobs": [self.RUNS]}, [{"job": self.RUNS}, {"job": old}])
        self.browser.run("location.hash = 'old'")
        self.await_title("old completed")
        # Of no job: as without it, but it says so.
        self.browser.run("location.hash = 'nobody'")
        self.await_title("runs running")
        cluster.wait_until(lambda: self.text("unknown-job") == "No job is named nobody. This is runs.", 30, "the word about it")
        self.browser.run("location.hash = 'runs'")
        cluster.wait_until(lambda: self.browser.run("document.getElementById('unknown-job').hidden"), 30, "the word to go")

    def curve(self, name, pool, points):
        return {"name": name, "pool": pool, "points": [{"step": str(step), "value": value} for step, value in points]}

    def words(self, selector):
        return json.loads(self.browser.run(f"JSON.stringify([...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent))"))

    def test_numbers_have_a_sane_length(self):
        rounds = [{"fragment": 0, "kind": "outer", "pools": [{"pool": "site-a", "pushed_at": f"2026-01-01T00:00:5{i}.{7 * i + 1}Z"}],
                   "committed_at": f"2026-01-01T00:00:5{i}.9Z"} for i in range(9)]
        job = {**self.RUNS, "eval_loss": {"last": 84.77, "best": 1e-7, "metrics": [{"name": "perplexity", "value": 6.56260192588274e36}]}}
        evaluations = [{"step": str(i), "loss": 1000.0 if i == 0 else 3 - i / 100} for i in range(100)]
        self.show({**self.NOW, "jobs": [job]}, [{"now": self.NOW["now"], "job": job, "rounds": rounds, "evaluations": evaluations}],
                  {"runs-1": [self.curve("train/learning_rate", "site-a", [(i, 3e-5 * i) for i in range(20)])]}.items())
        cluster.wait_until(lambda: self.words("#curves svg text"), 30, "the small charts")
        self.assertIn("6.56e+36", self.text("facts"))
        self.assertIn("1.00e-7", self.text("facts"))
        for text in self.words("svg text"):
            self.assertLess(len(text), 12, text)
        self.assertIn("0", self.words("#rounds svg text"))
        self.assertIn("losses reach 1000.000", self.text("loss"))

    def test_the_end_of_a_job_has_what_comes_next(self):
        job = {"id": "old-1", "state": "COMPLETED", "inner_step": "10", "tokens": "36000", "spec": {"name": "old", "train": {"steps": 10}},
               "started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T01:00:00Z", "wire_bytes": {"up_total": "450000000"}}
        events = [{"kind": "CHECKPOINT_WRITTEN", "step": step, "message": "x"} for step in ("5", "10")]
        curves = [self.curve("train/loss", "site-a", [(1, 5.0), (5, 3.0), (10, 2.0)]), self.curve("eval/loss", "", [(5, 3.1), (10, 2.1)]),
                  self.curve("train/gradient_norm", "site-a", [(1, 1.0), (5, "NaN"), (10, 0.5)])]
        self.show({**self.NOW, "jobs": [self.RUNS, job]}, [{"job": self.RUNS}, {"now": self.NOW["now"], "job": job, "events": events}],
                  {"old-1": curves, "runs": [self.curve("eval/loss", "", [(2, 4.0), (5, 3.5)])]}.items())
        self.browser.run("location.hash = 'old'")
        self.await_title("old completed")
        cluster.wait_until(lambda: "Gradient norm" in self.text("curves"), 30, "the curves")
        facts = self.text("facts")
        self.assertIn("duration1 h 0 min", facts)
        self.assertIn("mean speed10 tokens/s", facts)
        self.assertIn("mean rate1.000 Mbit/s", facts)
        self.assertNotIn("pools alive", facts)
        # The curves of pools come from the files, since it has ended.
        self.assertIn("site-a, training", self.text("loss"))
        for command in ("longhaul download old@10 --out old-checkpoint", "longhaul export old@10 --out old-hf", "longhaul sample old@10"):
            self.assertIn(command, self.text("results"))
        self.assertEqual(json.loads(self.text("spec")), job["spec"])
        # Words are explained where the pointer is.
        self.assertIn("nats per token", self.browser.run("[...document.querySelectorAll('dt')].find(e => e.textContent === 'eval loss').title"))
        self.assertTrue(self.browser.run("[...document.querySelectorAll('th')].find(e => e.textContent === 'uplink NMSE').title"))
        # Another job in the same chart.
        self.browser.run("const s = document.getElementById('overlay'); s.value = 'runs'; s.dispatchEvent(new Event('change'))")
        cluster.wait_until(lambda: "runs, held-out text" in self.text("loss"), 30, "the other job")
        self.assertEqual(self.browser.run("location.hash"), "#old,runs")
        self.assertEqual(self.browser.run("document.querySelectorAll('#loss path.other').length"), 2)  # The curve, and its mark.


class PageTest(cluster.ClusterTest):
    # Twice as fast as others, since its jobs have many steps.
    BYTES_PER_SECOND = 200_000

    def setUp(self):
        super().setUp()
        self.browser = chromium()
        self.shots = pathlib.Path(os.environ.get("PAGE_SHOTS") or self.cluster.folder)
        self.shots.mkdir(parents=True, exist_ok=True)

    def chromium(self, *flags, fragment=""):
        with tempfile.TemporaryDirectory() as profile:
            return subprocess.run(
                [self.browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                 f"--user-data-dir={profile}", "--hide-scrollbars", "--virtual-time-budget=4000", *flags, f"http://{self.cluster.http}/{fragment}"],
                capture_output=True, text=True, timeout=120, check=True).stdout

    def dom(self, fragment=""):
        return Text(self.chromium("--dump-dom", fragment=fragment))

    def detail(self, name):
        with urllib.request.urlopen(f"http://{self.cluster.http}/api/v1/job?name={name}", timeout=10) as answer:
            return json.loads(answer.read())

    def test_an_empty_coordinator_says_what_to_do(self):
        page = self.dom()
        self.assertIn("ready", " ".join(page.of["health"]))
        self.assertIn("longhaul submit", " ".join(page.of["no-jobs"]))
        self.assertIn("longhaul-worker", " ".join(page.of["no-pools"]))

    def test_shows_what_a_job_reports(self):
        for pool in ("site-a", "site-b"):
            self.cluster.start_worker(pool)
        self.cluster.start_worker("site-c", 1, "--data-dir", self.cluster.folder)  # Cannot do the second job.
        self.assertEqual(self.cluster.submit("first", steps=3000, pools=2, sets=["pools.names=[site-a,site-b]"]).returncode, 0)
        self.cluster.wait_step(100, "first", 200)
        # It waits for site-a, too, which is busy: one pool's word does not end it.
        self.assertEqual(self.cluster.submit("second", steps=100, pools=1, text="nowhere", sets=["pools.names=[site-a,site-c]"]).returncode, 0)
        self.cluster.wait_step(500, "first", 300)
        cluster.wait_until(lambda: self.detail("second")["job"]["set_aside"], 200, "site-c to be set aside")
        browser = Browser(self.browser, f"http://{self.cluster.http}/#first")
        self.addCleanup(browser.close)
        for name, size, scheme in (("desk-light", DESK, "light"), ("desk-dark", DESK, "dark"), ("phone-light", PHONE, "light"), ("phone-dark", PHONE, "dark")):
            browser.become(size, scheme)
            # Drawn again, for the new width.
            browser.run("delete document.body.dataset.drawn")
            cluster.wait_until(lambda: browser.run("document.body.dataset.drawn") == "yes", 30, "the page to be drawn")
            ground = browser.run("getComputedStyle(document.body).backgroundColor")
            self.assertEqual(ground, {"light": "rgb(247, 248, 250)", "dark": "rgb(17, 21, 27)"}[scheme])
            self.assertLessEqual(browser.run("document.documentElement.scrollWidth"), size[0])
            browser.shot(self.shots / f"{name}.png")
        live = self.dom("#first")
        self.assertIn("running", live.of["job-title"])
        self.assertGreaterEqual(live.tags.count("path"), 3)  # Two pools and the outer parameters.
        self.assertGreaterEqual(live.tags.count("rect"), 10)  # Rounds.
        self.assertIn("participating", live.of["job-pools"])
        # Mbit/s up and down, between contributed tokens and the wait.
        self.assertRegex(" ".join(live.of["job-pools"]), r" \d+\.\d\d \d+\.\d\d ")
        self.assertRegex(" ".join(live.of["pools"]), r"site-c .*second: .*nowhere")
        self.assertRegex(" ".join(self.dom("#second").of["set-aside"]), r"site-c is set aside.*nowhere")
        self.assertIn("pool set aside", " ".join(self.dom("#second").of["events"]))
        self.cluster.wait_job("first", seconds=400)
        self.check_end(self.dom("#first"))

    def test_jobs_in_trouble_say_so_on_every_screen(self):
        for pool in ("site-a", "site-b"):
            self.cluster.start_worker(pool)
        self.cluster.start_worker("site-c", 1, "--data-dir", self.cluster.folder)
        for name, pool in (("runs", "site-a"), ("hurt", "site-b")):
            self.assertEqual(self.cluster.submit(name, steps=1000000, pools=1, sets=[f"pools.names=[{pool}]"]).returncode, 0)
        for name, more in (("fails", {"sets": ["pools.names=[site-c]"], "text": "nowhere"}), ("waits", {"sets": ["pools.names=[site-y,site-z]"]})):
            self.assertEqual(self.cluster.submit(name, pools=1, **more).returncode, 0)
        for name in ("runs", "hurt"):
            self.cluster.wait_step(100, name, 120)
        self.cluster.wait_job("fails", state="FAILED", seconds=120)
        log = self.cluster.kill_coordinator_and_damage("hurt")
        self.cluster.start_coordinator()
        self.cluster.wait_step(self.cluster.job("runs")["inner_step"] + 100, "runs", 120)
        browser = Browser(self.browser, f"http://{self.cluster.http}/")
        self.addCleanup(browser.close)
        word = {"runs": "running", "fails": "failed", "waits": "pending", "hurt": "quarantined"}
        says = {"runs": "", "fails": "nowhere", "waits": "site-y", "hurt": log.name}
        for size in (DESK, PHONE):
            for scheme in ("light", "dark"):
                browser.become(size, scheme)
                for name in word:
                    browser.run(f"location.hash = '{name}'")
                    cluster.wait_until(lambda n=name: browser.run("document.getElementById('job-title').textContent") == f"{n} {word[n]}", 30, f"{name} to be shown")
                    self.assertIn(says[name], browser.run("document.getElementById('notice').textContent"))
                    self.assertEqual(browser.run("document.getElementById('notice').hidden"), not says[name])
                    # Tables scroll within themselves.
                    self.assertLessEqual(browser.run("document.documentElement.scrollWidth"), size[0], name)
                    browser.shot(self.shots / f"{name}-{'desk' if size == DESK else 'phone'}-{scheme}.png")
        # A fragment that is no name of a job is as good as none.
        browser.run("location.hash = '%'")
        cluster.wait_until(lambda: browser.run("document.getElementById('job-title').textContent") == "runs running", 30, "the running job to be shown")
        self.assertIn("ready", browser.run("document.getElementById('health').textContent"))

    def test_asks_for_a_token_and_then_shows_jobs(self):
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.address = "127.0.0.1:0"
        secret = self.cluster.start_closed_coordinator().read_text()
        browser = Browser(self.browser, f"http://{self.cluster.http}/")
        self.addCleanup(browser.close)
        shown = "[...document.querySelectorAll('main > section')].filter(s => !s.hidden).map(s => s.id).join()"
        health = "document.getElementById('health').textContent"
        cluster.wait_until(lambda: browser.run(health) == "waits for a token", 30, "the page to ask")
        self.assertEqual(browser.run(shown), "ask-token")
        browser.shot(self.shots / "token.png")

        def give(token):
            browser.run(f"document.getElementById('token').value = '{token}'; document.querySelector('#token-form button').click()")

        give("nobodys-0123456789abcdef")
        cluster.wait_until(lambda: browser.run("document.getElementById('token-why').textContent") == "This token is not accepted.", 30, "the refusal")
        give(secret)
        cluster.wait_until(lambda: browser.run("document.body.dataset.drawn") == "yes", 30, "the page to be drawn")
        self.assertEqual(browser.run("document.getElementById('ask-token').hidden"), True)
        self.assertIn("ready", browser.run(health))
        self.assertEqual(browser.run("sessionStorage.getItem('longhaul-token')"), secret)
        self.assertEqual(browser.run("localStorage.length + document.cookie.length"), 0)

    def check_end(self, page):
        job = self.detail("first")["job"]
        self.assertIn("completed", page.of["job-title"])
        facts = dict(zip(page.of["facts"][::2], page.of["facts"][1::2]))
        self.assertEqual(facts["eval loss"].split()[0], f"{job['eval_loss']['last']:.3f}")
        self.assertEqual(facts["bytes up"], f"{int(job['wire_bytes']['up_total']) / 1e6:.1f} MB")
        self.assertEqual(facts["computing"], f"{job['utilization'] * 100:.1f} %")
        self.assertIn("3,000 / 3,000", page.of["jobs"])
        for pool in job["pools"]:
            self.assertIn(pool["pool"], page.of["job-pools"])
            self.assertIn(f"{pool['train_loss']:.3f}", page.of["job-pools"])


if __name__ == "__main__":
    cluster.main()
