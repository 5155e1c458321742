"""The Python package, installed from the tree, and plain grpcio with reflection, against live processes."""

import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import tools

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration/processes"))

from cluster import BIN, TEXT, Cluster, ClusterTest, main, wait_until  # noqa: E402
from connect_proxy import ConnectProxy, own_address  # noqa: E402

PLANS = """
import asyncio, json, pickle, sys
import longhaul

spec = {"name": "planned", "model": {"transformer": {"layers": 2, "dim": 32, "heads": 2, "ff_dim": 64, "context": 32}},
        "data": {"text": {"path": "/usr/share/common-licenses"}}, "train": {"steps": 100, "batch": 4}, "sync": {"h": 10}, "pools": {"min": 1}}
sites = {"pools": [{"copies": 3, "tokens_per_second": 1000}]}

async def later():
    async with longhaul.AsyncClient(sys.argv[1], timeout=10) as client:
        return await client.plan(spec, sites)

def fields(sites):
    try:
        client.plan(spec, sites)
    except longhaul.LonghaulError as error:
        return [field.field for field in error.fields]

client = longhaul.Client(sys.argv[1], timeout=10)
connected = client.plan(spec)
plans = [pickle.loads(pickle.dumps(client.plan(spec, sites))), asyncio.run(later())]
print(json.dumps({"connected": [pool.name for pool in connected.pools], "seconds": connected.seconds, "assumed": list(connected.assumptions),
                  "described": [[plan.sites.pools[0].name, plan.pools[0].copies, plan.pools[0].tokens_per_second] for plan in plans],
                  "shown": repr(connected), "typo": fields({"pools": [{"up_mbps": 1}]}), "refused": fields({"pools": [{"copies": 5000}]}),
                  "listed": [job.name for job in client.list()]}))
"""
SCRIPT = """
import json, sys
import longhaul
from longhaul.v1 import fragment_pb2, job_pb2

client = longhaul.Client(sys.argv[1], timeout=10)
found = {"options": dict(longhaul.access.CHANNEL_OPTIONS), "listed": [job.spec.name for job in client.list()], "pools": [pool.name for pool in client.pools()]}
try:
    client.get("nobody")
except longhaul.LonghaulError as error:
    found["missing"] = [error.code, error.reason]
try:
    client.submit({"name": "Bad", "model": {"transformer": {"layers": 1}}})
except longhaul.LonghaulError as error:
    found["refused"] = [field.field for field in error.fields]
try:
    client.submit({"nmae": "a"})
except ValueError as error:
    found["typo"] = str(error)
found["dry"] = client.submit({"name": "dry", "model": {"synthetic": {"units": 1, "elements": 128}}, "train": {"steps": 5},
                              "sync": {"h": 2, "up": {"codec": "int8"}}}, validate_only=True).spec.sync.up.codec == fragment_pb2.INT8
mixture = {"name": "mixed", "data": {"mixture": {"sources": [{"tokens": {"path": "a", "format": "llmc"}}]}}}
found["mixed"] = longhaul.spec.job_spec(mixture).data.mixture.sources[0].tokens.format == job_pb2.LLMC
client.submit({"name": "gone", "model": {"synthetic": {"units": 1, "elements": 128}}, "train": {"steps": 5}, "sync": {"h": 2},
               "pools": {"names": ["nobody"]}})
try:
    client.wait("gone", timeout=1)
except longhaul.LonghaulError as error:
    found["late"] = error.code
paused = client.pause("gone", "night")
found["paused"] = [job_pb2.JobState.Name(paused.state), paused.pause.reason, job_pb2.JobState.Name(client.resume("gone").state)]
found["cancelled"] = [client.cancel("gone", "enough").error.message, job_pb2.JobState.Name(client.wait("gone", timeout=10).state)]
found["logs"] = len(list(client.logs("from-python", tail=5)))
found["rows"] = longhaul.rows(client.get("from-python"))
print(json.dumps(found))
"""

REPORTS = """
import copy, json, pickle
import longhaul
from google.protobuf import json_format
from longhaul import Job, JobEvent, JobState, Pool
from longhaul.v1 import event_pb2, job_pb2, pool_pb2

message = job_pb2.Job(id="i", inner_step=30, state=job_pb2.RUNNING, spec=job_pb2.JobSpec(name="tiny", train=job_pb2.TrainSpec(steps=60)))
message.eval_loss.last = 2.5
job = Job(message)
failed = job_pb2.Job(spec=message.spec, state=job_pb2.FAILED, error=job_pb2.JobError(code="NOT_FOUND", message="no data"))
found = {"shown": [str(job), str(job.state), f"{job.state:10}"], "failed": repr(Job(failed)),
         "like ints": [job.state == 3, job.state == job_pb2.RUNNING, job.state in (JobState.RUNNING,), job_pb2.JobState.Name(job.state)]}
newer = Job(job_pb2.Job(state=77)).state
found["newer"] = [str(newer), int(newer)]
small = Job(job_pb2.Job(id="i", spec=message.spec))
found["copies"] = [copy.deepcopy(job) == job, pickle.loads(pickle.dumps(job)) == job, job == message, json_format.MessageToDict(small)]
try:
    job.id = "j"
except AttributeError as error:
    found["changed"] = str(error)
found["states"] = {state.name: state.value for state in JobState}
found["of the contract"] = dict(job_pb2.JobState.items())
found["event"] = repr(JobEvent(event_pb2.JobEvent(kind=event_pb2.POOL_LOST, severity=event_pb2.WARNING, pool="site-a", message="was lost")))
found["pool"] = repr(Pool(pool_pb2.Pool(name="site-a", state=pool_pb2.IDLE, ranks=2)))
found["hint"] = str(longhaul.LonghaulError("NOT_FOUND", "no such job", hint="see the list"))
print(json.dumps(found))
"""
SPECS = """
import json
import longhaul

found = []
for spec in ({"sync": {"hh": 3}}, {"nmae": "a"}, {"sync": {"up": {"codec": "int5"}}}, {"sync": {"h": "x"}}, {"data": {"mixture": {"sources": [{"tokns": {}}]}}}):
    try:
        longhaul.Client("localhost:1").submit(spec)
    except longhaul.LonghaulError as error:
        found.append([type(error).__name__, error.code, str(error)])
print(json.dumps(found))
"""
RESULTS = """
import asyncio, json, os, shutil, sys
import longhaul

client = longhaul.Client(sys.argv[1], timeout=10)
out = sys.argv[2]
job = client.get("tiny")
found = {"state": [str(job.state), str(longhaul.JobState.COMPLETED)]}
curves = client.curves("tiny")
found["names"] = sorted({row["name"] for row in curves})
found["of the pool"] = sorted({row["pool"] for row in client.curves("tiny", ["train/loss"])})
found["outer"] = sorted({row["pool"] for row in client.curves("tiny", ["eval/loss"])}, key=str)
found["step"] = client.download("tiny", out)
try:
    client.download("tiny", out)
except FileExistsError as error:
    found["again"] = str(error)
# A copy that broke off: a file is half there, another is damaged.
shutil.copytree(out, out + "-2.partial")
first, second = sorted(name for name in os.listdir(out) if name != "manifest.json")[:2]
os.truncate(f"{out}-2.partial/{first}", os.path.getsize(f"{out}/{first}") // 2)
with open(f"{out}-2.partial/{second}", "r+b") as file:
    file.write(b"damaged")
found["partial"] = [client.download("tiny", out + "-2", step=60), str(os.path.exists(out + "-2.partial"))]
for name in os.listdir(out):
    assert open(f"{out}/{name}", "rb").read() == open(f"{out}-2/{name}", "rb").read(), name
try:
    client.download("tiny", out + "-3", step=1)
except longhaul.LonghaulError as error:
    found["unknown"] = error.code

async def main():
    async with longhaul.AsyncClient(sys.argv[1], timeout=10) as client:
        seen = [str(update.state) async for update in client.watch("tiny")]
        try:
            await client.get("nobody")
        except longhaul.LonghaulError as error:
            reason = error.reason
        return [[job.name for job in await client.list()], str((await client.wait("tiny", timeout=10)).state), seen, [pool.name for pool in await client.pools()],
                await client.curves("tiny") == curves, reason]

found["aio"] = asyncio.run(main())
print(json.dumps(found))
"""
TYPED = """
print(client.pools()[0].name, client.list()[0].spec.name, client.events("a")[0].message, client.checkpoints("a")[-1].step)
for row in client.metrics("a"):
    print(row["step"])
reveal_type(client.list())
reveal_type(client.get("a").state)
reveal_type(client.pools())
reveal_type(client.curves("a"))
"""
SPEC = """{"name": "tiny", "model": {"transformer": {"layers": 1, "dim": 32, "heads": 2, "ff_dim": 64, "context": 32}},
    "data": {"text": {"path": "%s"}}, "train": {"steps": 60, "batch": 2}, "sync": {"h": 10}}"""
# Server, a checkpoint's folder, a spec that it fits, one that it does not fit. It stands still in the middle of the largest file, once.
UPLOAD = """
import json, os, shutil, sys
import longhaul

server, folder, spec, other = sys.argv[1], sys.argv[2], *map(json.loads, sys.argv[3:5])
client = longhaul.Client(server, timeout=10)
largest = max(os.listdir(folder), key=lambda name: os.path.getsize(os.path.join(folder, name)))
streams, told = [], []

class Slow:
    PrepareUpload = client._uploads.PrepareUpload

    def UploadFile(self, messages, **options):
        return self.stub.UploadFile(self.paused(messages), **options)

    def paused(self, messages):
        for number, message in enumerate(messages):
            if number == 0:
                streams.append([message.file, message.offset])
            yield message
            if number == 2 and streams[-1][0] == largest and not told:
                told.append(print("half", flush=True))
                sys.stdin.readline()

Slow.stub, client._uploads = client._uploads, Slow()
longhaul.upload.CHUNK_BYTES = 4096
found = {}

def refused(name, call):
    try:
        call()
        found[name] = "was not refused"
    except (longhaul.LonghaulError, ValueError, OSError) as error:
        found[name] = f"{type(error).__name__}: {error}"

refused("other shape", lambda: client.submit(other, begin_from=folder))
found["streams of what is refused"] = len(streams)
job = client.submit(spec, begin_from=folder)
found["job"] = [job.spec.name, job.spec.init.upload]
found["largest"] = [stream[1] for stream in streams if stream[0] == largest]
before = len(streams)
found["again"] = [client.upload(folder), len(streams) - before]
found["checkpoint name"] = client.submit({**spec, "name": "third"}, begin_from="tiny", validate_only=True).spec.init.checkpoint.partition("@")[2]
found["events"] = client.events("second")[0].sequence
refused("live", lambda: client.delete("second"))
client.cancel("second")
found["deleted"] = [client.delete("second"), client.delete("second")]
refused("ended", lambda: client.checkpoint("tiny"))
refused("nowhere", lambda: client.submit(spec, begin_from=folder + "/nowhere"))
refused("no model", lambda: client.upload(os.path.dirname(folder)))
unshaped = {name: value for name, value in spec.items() if name != "model"}
found["model of the folder"] = client.submit({**unshaped, "name": "shaped"}, begin_from=folder + "-hf").spec.model.transformer.layers
refused("no model, not sent", lambda: client.submit({**unshaped, "name": "shaped"}, begin_from=folder, validate_only=True))
shutil.copytree(folder, folder + "-changing")
os.truncate(os.path.join(folder + "-changing", largest), 5)
refused("damaged", lambda: client.submit({**spec, "name": "damaged"}, begin_from=folder + "-changing"))
os.truncate(os.path.join(folder + "-changing", largest), 6)
read = longhaul.upload.read_folder(folder + "-changing")
open(os.path.join(folder + "-changing", "manifest.json"), "a").write(" ")
refused("changed", longhaul.upload.Sending(client._uploads, tuple, read, 10, 10).run)
with open(os.path.join(folder + "-changing", "manifest.json"), "w") as manifest:
    json.dump({"fragments": [{"file": "../secret"}]}, manifest)
refused("outside", lambda: client.upload(folder + "-changing"))
print(json.dumps(found))
"""
# Follows logs until lines come over a second stream.
FOLLOW = """
import sys
import longhaul

client = longhaul.Client(sys.argv[1], timeout=10)
asked = []
follow = client._logs.FollowLogs
client._logs.FollowLogs = lambda request, **options: (asked.append([at.pool for at in request.positions]), follow(request, **options))[1]
for pool, line in client.logs(follow=True, tail=5):
    print(line, flush=True)
    if len(asked) > 1:
        break
print(asked, pool, flush=True)
"""
# A clock that nobody waits for, and streams that end as a test wants: (seconds until then, jobs' states before, error).
ABSENCE = """
import json, types
import grpc
import longhaul
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from longhaul.v1 import job_pb2

clock = types.SimpleNamespace(now=1000.0)
longhaul.client.time = types.SimpleNamespace(monotonic=lambda: clock.now, sleep=lambda seconds: setattr(clock, "now", clock.now + seconds))

class Failure(grpc.RpcError):
    def __init__(self, code, retry=None):
        self.of, self.retry = code, retry
    def code(self):
        return self.of
    def details(self):
        return "as the test says"
    def trailing_metadata(self):
        if self.retry is None:
            return ()
        detail = any_pb2.Any()
        detail.Pack(error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=self.retry)))
        return (("grpc-status-details-bin", status_pb2.Status(details=[detail]).SerializeToString()),)

AWAY, FULL = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED
RUNS, ENDS = (job_pb2.RUNNING,), (job_pb2.COMPLETED,)

def watch(streams, **options):
    begun = clock.now
    client, left = longhaul.Client("localhost:1"), list(streams)
    def stream(request, **_):
        lasts, states, error = left.pop(0) if len(left) > 1 else left[0]
        for state in states:
            yield job_pb2.WatchJobResponse(cursor=1, job=job_pb2.Job(id="i", state=state))
        clock.now += lasts
        if error:
            raise error
    client._jobs = types.SimpleNamespace(WatchJob=stream)
    client._logs = types.SimpleNamespace(FollowLogs=lambda request, **_: (longhaul.v1.logs_pb2.FollowLogsResponse(text=b"a line", ring=1, next=1)
                                                                          for _ in stream(request)))
    try:
        if options.pop("logs", False):
            return [line for _, line in client.logs(follow=True)]
        return [job_pb2.JobState.Name(job.state) for job in client.watch("j", **options)]
    except longhaul.LonghaulError as error:
        return [error.code, clock.now - begun]

print(json.dumps({
    "quiet": watch([(3600, RUNS, Failure(AWAY)), (0, (), Failure(AWAY)), (3600, (), Failure(AWAY)), (0, ENDS, None)]),
    "quiet logs": watch([(3600, RUNS, Failure(AWAY)), (0, RUNS, None)], logs=True),
    "away": watch([(3600, RUNS, Failure(AWAY)), (0, (), Failure(AWAY))], reconnect_for=50),
    "late": watch([(1, RUNS, Failure(AWAY)), (0, (), Failure(AWAY))], timeout=5.5),
    "full": watch([(1, RUNS, Failure(AWAY)), (0, (), Failure(FULL, 7)), (0, ENDS, None)]),
    "full at once": watch([(0, (), Failure(FULL, 7))]),
    "too large": watch([(0, RUNS, Failure(FULL))])}))
"""
# Of a coordinator with TLS and tokens: server, folder of the authority, file of a submitter's token.
CLOSED = """
import json, os, sys
import longhaul

server, ca, token = sys.argv[1:]
authority = ca + "/ca.pem"
found = {}

def refused(name, call):
    try:
        call()
        found[name] = "was not refused"
    except (longhaul.LonghaulError, ValueError) as error:
        found[name] = f"{getattr(error, 'code', 'ValueError')}: {error}"

with longhaul.Client(server, tls_ca=authority, token_file=token, timeout=10) as client:
    job = client.submit({"name": "closed", "model": {"synthetic": {"units": 1, "elements": 128}}, "train": {"steps": 5}, "sync": {"h": 2},
                         "pools": {"names": ["nobody"]}})
    found["listed"] = [job.spec.name for job in client.list()]
    found["logs"] = list(client.logs("closed"))
    os.environ.update(http_proxy="http://127.0.0.1:1", no_proxy="")  # Nobody there would get the token.
    found["metrics"] = client.metrics("closed")
    with longhaul.Client(server, tls_ca=authority, token_file=token, timeout=10) as beside:  # Nor is it asked for this machine.
        found["beside a proxy"] = [job.spec.name for job in beside.list()]
    client.server = "coordinator.example:7070"
    refused("page of another machine", lambda: client.metrics("closed"))
    found["page"] = client.metrics("closed", page=client.describe().http_address)
    del os.environ["http_proxy"], os.environ["no_proxy"]
    client.cancel("closed")
    found["waited"] = client.wait("closed", timeout=10).spec.name
    secret = open(token).read()
    open(token, "w").write("f" * 64)
    refused("replaced", client.list)
    open(token, "w").write(secret)
    found["again"] = len(client.list())
    os.chmod(token, 0o644)
    refused("readable", client.list)
    refused("readable at once", lambda: longhaul.Client(server, tls_ca=authority, token_file=token))
    os.chmod(token, 0o600)
os.environ.update(LONGHAUL_SERVER=server, LONGHAUL_TLS_CA=authority, LONGHAUL_TOKEN_FILE=token)
with longhaul.Client() as client:
    found["variables"] = len(client.list())
del os.environ["LONGHAUL_TLS_CA"], os.environ["LONGHAUL_TOKEN_FILE"]
with longhaul.Client(tls_ca=authority, tls_certificate=ca + "/site-a.pem", tls_key=ca + "/site-a.key", timeout=10) as client:
    refused("a pool", client.list)
with longhaul.Client(tls_ca=ca + "/other/ca.pem", token_file=token, timeout=2) as client:
    refused("another authority", client.list)
with longhaul.Client(timeout=2) as client:
    refused("plaintext", client.list)
refused("token in plaintext", lambda: longhaul.Client(token_file=token))
refused("nobody", lambda: longhaul.Client(tls_ca=authority))
refused("half", lambda: longhaul.Client(tls_ca=authority, tls_certificate=ca + "/site-a.pem"))
for name, text in (("short.token", "short"), ("lines.token", "one-token-of-many\\nanother-of-them")):
    path = os.path.join(ca, name)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    open(path, "w").write(text)
    refused(name, lambda: longhaul.Client(tls_ca=authority, token_file=path))
refused("folder", lambda: longhaul.Client(tls_ca=authority, token_file=ca))
refused("none", lambda: longhaul.Client(tls_ca=authority, token_file=ca + "/none"))
print(json.dumps([found, secret.strip()]))
"""
# Server, and a list of variables for each client.
PROXIED = """
import asyncio, json, os, sys
import longhaul

async def listed(server):
    async with longhaul.AsyncClient(server, timeout=10) as client:
        return len(await client.list())

found = []
for variables in json.loads(sys.argv[2]):
    os.environ.update(variables)
    try:
        with longhaul.Client(sys.argv[1], timeout=10) as client:
            found.append([len(client.list()), asyncio.run(listed(sys.argv[1]))])
    except longhaul.LonghaulError as error:
        found.append([error.code, str(error)])
    for name in variables:
        del os.environ[name]
print(json.dumps(found))
"""


class PythonClientTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        cls.python = tools.environment(pathlib.Path(__file__).with_name("python_requirements.txt"))
        cls.oldest = tools.environment(pathlib.Path(__file__).with_name("python_floors.txt"))
        cls.folder = tempfile.TemporaryDirectory()
        # A copy: other tests use the sources, and nothing may be left beside them.
        subprocess.run(["cp", "-r", ROOT / "deploy", ROOT / "proto", ROOT / "VERSION", cls.folder.name], check=True)
        subprocess.run(tools.pip(cls.oldest, "install", "-q", "--no-build-isolation", "--no-deps", "--target", cls.folder.name + "/installed",
                                 cls.folder.name + "/deploy/python"), check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_script(self, *arguments, python=None):
        environment = {**os.environ, "PYTHONPATH": self.folder.name + "/installed"}
        result = subprocess.run([python or self.python, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_the_example_trains_and_the_client_knows_errors(self):
        self.cluster.start_worker("site-a")
        shown = self.run_script(ROOT / "deploy/python/examples/follow_a_job.py", self.cluster.address, TEXT)
        self.assertIn("site-a step 200 loss", shown)
        self.assertIn("eval loss", shown)
        self.assertIn("step-00000200", shown)
        found = json.loads(self.run_script("-c", SCRIPT, self.cluster.address))
        self.assertEqual(found["listed"], ["from-python"])
        self.assertEqual(found["pools"], ["site-a"])
        self.assertEqual(found["missing"], ["NOT_FOUND", "JOB_UNKNOWN"])
        self.assertIn("name", found["refused"])
        self.assertIn("nmae", found["typo"])
        self.assertTrue(found["dry"])
        self.assertTrue(found["mixed"])
        self.check_channel(found["options"])
        self.assertEqual(found["late"], "DEADLINE_EXCEEDED")
        self.assertEqual(found["paused"], ["PAUSED", "night", "PENDING"])
        self.assertEqual(found["cancelled"], ["enough", "CANCELLED"])
        self.assertGreater(found["logs"], 0)
        self.assertEqual(found["rows"][0]["step"], 200)

    def test_proxies_of_the_environment_are_those_of_the_other_programs(self):
        host = own_address()
        if host is None:
            self.skipTest("this machine has no address beyond localhost")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.address = f"{host}:0"
        self.cluster.start_coordinator("--insecure")
        proxy = ConnectProxy("some.one:s3cr%t@/x")
        self.addCleanup(proxy.close)
        url = f"http://some.one:s3cr%25t%40%2Fx@{proxy.address}"

        def ask(*variables):
            del proxy.tunnels[:]
            return json.loads(self.run_script("-c", PROXIED, self.cluster.address, json.dumps(variables)))

        for name in ("HTTPS_PROXY", "all_proxy", "https_proxy", "grpc_proxy"):
            self.assertEqual(ask({name: url}), [[0, 0]], name)
            self.assertEqual(proxy.tunnels, [self.cluster.address] * 2, name)
        # gRPC reads neither the first one nor networks, but HTTP_PROXY it is that a web server may set.
        exempt = [{"https_proxy": url, "NO_PROXY": host}, {"https_proxy": url, "no_proxy": "10.0.0.0/33,0.0.0.0/0"}, {"HTTP_PROXY": url}]
        self.assertEqual(ask(*exempt), [[0, 0]] * len(exempt))
        self.assertEqual(proxy.tunnels, [])
        refused = ask({"https_proxy": "socks5://some.one:s3cr@127.0.0.1:9"}, {"https_proxy": "http://some.one:s3cr@"})
        for code, said in refused:
            self.assertEqual(code, "INVALID_ARGUMENT")
            self.assertIn("https_proxy: ", said)
            self.assertNotIn("s3cr", said)

    def test_a_report_shows_names_and_is_short(self):
        found = json.loads(self.run_script("-W", "error", "-c", REPORTS))
        self.assertEqual(found["shown"], ["<Job tiny RUNNING, step 30/60, eval loss 2.5000>", "RUNNING", "RUNNING   "])
        self.assertEqual(found["failed"], "<Job tiny FAILED, step 0/60, NOT_FOUND: no data>")
        self.assertEqual(found["like ints"], [True, True, True, "RUNNING"])
        self.assertEqual(found["newer"], ["JobState_77", 77])
        self.assertEqual(found["copies"], [True, True, True, {"id": "i", "spec": {"name": "tiny", "train": {"steps": "60"}}}])
        self.assertIn("a report", found["changed"])
        self.assertEqual(found["states"], found["of the contract"])
        self.assertEqual(found["event"], "<JobEvent 1970-01-01T00:00:00Z WARNING POOL_LOST site-a: was lost>")
        self.assertEqual(found["pool"], "<Pool site-a IDLE, ranks 2>")
        self.assertEqual(found["hint"], "NOT_FOUND: no such job (hint: see the list)")

    def test_an_unknown_field_is_named_with_what_was_meant(self):
        found = json.loads(self.run_script("-c", SPECS))
        self.assertEqual([fault[:2] for fault in found], [["SpecError", "INVALID_ARGUMENT"]] * len(found))
        for fault, words in zip(found, ("sync.hh: unknown field (did you mean 'h'?)", "nmae: unknown field (did you mean 'name'?)", "'int5' is not one of fp32,",
                                        "Failed to parse h field", "data.mixture.sources[0].tokns: unknown field (did you mean 'tokens'?)")):
            self.assertIn(words, fault[2])

    def test_a_checkpoint_with_a_tokenizer_needs_its_name(self):
        folder = self.cluster.folder / "copy"
        (folder / "tokenizer").mkdir(parents=True)
        (folder / "manifest.json").write_text('{"fragments": []}')
        (folder / "tokenizer/.files").touch()
        sources = ({"text": {"path": "x"}}, {"jsonl": {"path": "x", "tokenizer": "model"}}, {"megatron": {"prefix": "x"}, "pools": [{"pool": "a", "text": {"path": "x"}}]},
                   {"mixture": {"sources": [{"tokens": {"path": "x"}}, {"jsonl": {"path": "x"}}]}}, {"text": {"path": "x", "tokenizer": "bytes"}})
        script = """
import json, sys
import longhaul
client, found = longhaul.Client("127.0.0.1:1"), []
for data in json.loads(sys.argv[2]):
    try:
        client.submit({"name": "a", "data": data}, begin_from=sys.argv[1])
    except longhaul.LonghaulError as error:
        found.append(str(error))
print(json.dumps(found))
"""
        found = json.loads(self.run_script("-c", script, folder, json.dumps(sources)))
        for said, field in zip(found, ("data.text", "data.jsonl", "data.pools[0].text", "data.mixture.sources[1].jsonl")):
            self.assertIn(f"{field}.tokenizer: is required: the model of this checkpoint has a tokenizer", said)
        self.assertNotIn("tokenizer", found[4])

    def test_curves_checkpoints_and_asyncio(self):
        self.cluster.start_worker("site-a")
        self.assertEqual(self.cluster.submit("tiny", steps=60, pools=1, wait=True).returncode, 0)
        out = self.cluster.folder / "mine"
        for python in (self.python, self.oldest):
            found = json.loads(self.run_script("-W", "error", "-c", RESULTS, self.cluster.address, f"{out}-{python == self.oldest}", python=python))
            self.assertEqual(found["state"], ["COMPLETED", "COMPLETED"])
            for name in ("eval/loss", "train/loss", "train/learning_rate", "train/gradient_norm", "train/tokens_per_second"):
                self.assertIn(name, found["names"])
            self.assertEqual(found["of the pool"], ["site-a"])
            self.assertEqual(found["outer"], [None, "site-a"])  # The pool measures its own parameters, too.
            self.assertEqual(found["step"], 60)
            self.assertIn("exists", found["again"])
            self.assertEqual(found["partial"], [60, "False"])
            self.assertEqual(found["unknown"], "NOT_FOUND")
            self.assertEqual(found["aio"], [["tiny"], "COMPLETED", ["COMPLETED"], ["site-a"], True, "JOB_UNKNOWN"])
        # The folder is what the CLI makes.
        self.assertEqual(self.cluster.cli("download", "tiny", "--out", f"{out}-cli").returncode, 0)
        for path in pathlib.Path(f"{out}-cli").iterdir():
            self.assertEqual(path.read_bytes(), (pathlib.Path(f"{out}-True") / path.name).read_bytes(), path.name)

    def test_a_job_is_planned(self):
        self.cluster.start_worker("site-a")
        for python in (self.python, self.oldest):
            found = json.loads(self.run_script("-W", "error", "-c", PLANS, self.cluster.address, python=python))
            self.assertEqual(found["connected"], ["site-a"])
            self.assertEqual(found["described"], [["pool-1", 3, 1000.0]] * 2)
            self.assertGreater(found["seconds"], 0)
            self.assertTrue(found["assumed"])
            self.assertIn("Forecast", found["shown"])
            self.assertIn("pools[0].up_mbps", found["typo"])
            self.assertIn("sites.pools[0].copies", found["refused"])
            self.assertEqual(found["listed"], [], "nothing was submitted")

    def test_type_checkers_know_the_lines_of_the_page(self):
        page = (ROOT / "deploy/python/README.md").read_text().split("```python\n", 1)[1].split("```", 1)[0]
        script = pathlib.Path(self.folder.name, "typed.py")
        script.write_text(page.replace('{"name": "tiny", ...}', '{"name": "tiny"}') + TYPED)
        result = subprocess.run([self.python, "-m", "mypy", "--follow-imports=silent", "--ignore-missing-imports", "--cache-dir", self.folder.name + "/mypy", script], capture_output=True, text=True, timeout=300,
                                env={**os.environ, "MYPYPATH": self.folder.name + "/installed"}, check=False)
        self.assertEqual(result.returncode, 0, result.stdout)
        for kind in ("list[longhaul.reports.Job]", "longhaul.reports.JobState", "list[longhaul.reports.Pool]", "list[dict[str, Any]]"):
            self.assertIn(f'Revealed type is "{kind}"', result.stdout.replace("builtins.", "").replace("typing.", ""))

    def test_a_source_distribution_builds(self):
        source = self.folder.name + "/deploy/python"
        script = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"

        def build(what, folder, target):
            result = subprocess.run([self.oldest, "-c", script, what, target], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stdout.splitlines()[-1]

        work = self.folder.name + "/dist"
        name = build("build_sdist", source, work)
        with tarfile.open(f"{work}/{name}") as archive:
            archive.extractall(work, filter="data")
        wheel = build("build_wheel", f"{work}/{name.removesuffix('.tar.gz')}", work)
        with zipfile.ZipFile(f"{work}/{wheel}") as archive:
            names = archive.namelist()
            metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
        for part in ("longhaul/v1/job_pb2.py", "longhaul/v1/curves_pb2_grpc.py", "longhaul/v1/job_pb2.pyi", "longhaul/py.typed", "longhaul/aio.py"):
            self.assertIn(part, names)
        self.assertIn("\nAuthor: ", metadata)
        self.assertIn("\nClassifier: Typing :: Typed", metadata)
        # Beside these live tensorflow (protobuf below 8, from 6.31.1 on), wandb and ray.
        self.assertIn("\nRequires-Dist: protobuf<8,>=6.31.1\n", metadata)
        shown = self.run_script("-m", "longhaul")
        self.assertIn("longhaul " + re.search(r"^Version: (.*)$", metadata, re.MULTILINE)[1], shown)
        # A build leaves nothing in the checkout.
        self.assertEqual(sorted(os.listdir(source)), sorted(name for name in os.listdir(ROOT / "deploy/python") if name not in ("build", "longhaul.egg-info")))

    def test_the_versions_are_one(self):
        self.assertEqual(self.run_script("-c", "import longhaul; print(longhaul.__version__)").strip(), (ROOT / "VERSION").read_text().strip())

    def test_the_tokenizer_needs_neither_grpc_nor_protobuf(self):
        """Also where both are installed, and too old."""
        broken = pathlib.Path(self.folder.name, "broken")
        for package in ("grpc", "google/protobuf"):
            (broken / package).mkdir(parents=True)
            (broken / package / "__init__.py").write_text("raise ImportError('it is too old')\n")
        for where in (self.folder.name + "/installed", ROOT / "deploy/python"):
            result = subprocess.run(["/usr/bin/python3", "-B", "-m", "longhaul.tokenize", "--help"], capture_output=True, text=True, timeout=60, check=False,
                                    env={**os.environ, "PYTHONPATH": f"{broken}:{where}"})
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("--tokenizer", result.stdout)

    def check_channel(self, options):
        """They are those of every other program."""
        source = (ROOT / "common/rpc/channel.cc").read_text()
        for name in ("initial", "min", "max"):
            value = re.search(rf"GRPC_ARG_{name.upper()}_RECONNECT_BACKOFF_MS, ([0-9']+)\)", source)[1]
            self.assertEqual(options[f"grpc.{name}_reconnect_backoff_ms"], int(value.replace("'", "")))
        source = (ROOT / "common/rpc/transport_options.h").read_text()
        for name in ("time", "timeout"):
            seconds = re.search(rf"absl::Duration {name} = absl::Seconds\((\d+)\)", source)[1]
            self.assertEqual(options[f"grpc.keepalive_{name}_ms"], 1000 * int(seconds))

    def test_a_stream_waits_for_a_coordinator_that_is_away(self):
        found = json.loads(self.run_script("-c", ABSENCE))
        self.assertEqual(found["quiet"], ["RUNNING", "COMPLETED"])
        self.assertEqual(found["quiet logs"], ["a line", "a line"])
        self.assertEqual(found["full"], ["RUNNING", "COMPLETED"])
        self.assertEqual(found["away"], ["UNAVAILABLE", 3650])
        self.assertEqual(found["late"], ["DEADLINE_EXCEEDED", 5.5])
        self.assertEqual(found["full at once"], ["RESOURCE_EXHAUSTED", 0])
        self.assertEqual(found["too large"], ["RESOURCE_EXHAUSTED", 0])

    def test_the_lines_of_the_page_run(self):
        """deploy/python/README.md, with a whole spec and this coordinator."""
        self.cluster.start_worker("site-a")
        page = (ROOT / "deploy/python/README.md").read_text()
        lines = page.split("```python\n", 1)[1].split("```", 1)[0]
        for shown, meant in (('{"name": "tiny", ...}', SPEC % TEXT), ('"localhost:7070"', repr(self.cluster.address))):
            self.assertEqual(lines.count(shown), 1)
            lines = lines.replace(shown, meant)
        shown = self.run_script("-c", lines + "\nprint(len(table))")
        self.assertIn("60 [{", shown)
        self.assertGreater(int(shown.splitlines()[-1]), 1)

    def test_a_folder_of_this_machine_is_sent_and_continues_after_a_restart(self):
        worker = self.cluster.start_worker("site-a")
        self.assertEqual(self.cluster.submit("tiny", steps=20, pools=1, wait=True).returncode, 0)
        folder = self.cluster.folder / "mine"
        self.assertEqual(self.cluster.cli("download", "tiny", "--out", folder).returncode, 0)
        worker.kill()
        worker.wait()
        self.longhaul("export", folder, "--out", f"{folder}-hf")
        model = {"transformer": {"layers": 2, "dim": 32, "heads": 2, "ff_dim": 64, "context": 32}}
        spec = {"name": "second", "model": model, "data": {"text": {"path": TEXT}}, "train": {"steps": 20, "batch": 4}, "sync": {"h": 10}}
        other = {**spec, "model": {"transformer": {**model["transformer"], "dim": 64}}}
        script = subprocess.Popen([self.python, "-c", UPLOAD, self.cluster.address, folder, json.dumps(spec), json.dumps(other)], text=True,
                                  env={**os.environ, "PYTHONPATH": self.folder.name + "/installed"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(script.wait)
        self.addCleanup(script.kill)
        self.assertEqual(script.stdout.readline(), "half\n")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        shown, _ = script.communicate("go on\n", timeout=120)
        found = json.loads(shown)
        self.assertEqual(found["job"][0], "second")
        self.assertRegex(found["job"][1], "^[0-9a-f]{64}$")
        self.assertEqual(found["largest"][0], 0)
        self.assertEqual(len(found["largest"]), 2)
        self.assertEqual(found["again"], [found["job"][1], 0])
        self.assertEqual(found["checkpoint name"], "20")
        self.assertEqual(found["deleted"], [True, False])
        self.assertEqual(found["model of the folder"], 2)
        for name, words in (("live", "has not ended"), ("ended", "FAILED_PRECONDITION"), ("nowhere", "FileNotFoundError"), ("no model, not sent", "INVALID_ARGUMENT"), ("no model", "ValueError"),
                            ("changed", "ABORTED"), ("outside", "ValueError"), ("damaged", "init.upload: "), ("other shape", "LonghaulError")):
            self.assertIn(words, found[name], name)

    def test_logs_are_followed_over_a_restart(self):
        self.cluster.start_worker("site-a")
        wait_until(lambda: "site-a" in self.cluster.cli("logs", "site-a").stdout, 30, "lines of the pool")
        script = subprocess.Popen([self.python, "-c", FOLLOW, self.cluster.address], text=True, stdout=subprocess.PIPE,
                                  env={**os.environ, "PYTHONPATH": self.folder.name + "/installed"})
        self.addCleanup(script.stdout.close)
        self.addCleanup(script.wait)
        self.addCleanup(script.kill)
        first = script.stdout.readline().removesuffix("\n")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        # Each job makes lines; one of them is written when the script is connected again.
        jobs = itertools.count()

        def ended():
            self.assertEqual(self.cluster.submit(f"tiny-{next(jobs)}", steps=20, pools=1, wait=True).returncode, 0)
            return script.poll() is not None

        wait_until(ended, 60, "lines over a second stream")
        *rest, asked = script.stdout.read().splitlines()
        self.assertEqual(asked, "[[], ['site-a']] site-a")
        # None is missing, and none comes twice.
        log = (self.cluster.folder / "site-a.log").read_text().splitlines()
        begin = log.index(first)
        self.assertEqual([first, *rest], log[begin:begin + 1 + len(rest)])

    def longhaul(self, *arguments):
        subprocess.run([BIN / "longhaul", *arguments], check=True, capture_output=True)

    def test_tokens_and_certificates(self):
        self.cluster.close()
        self.cluster = Cluster()
        self.addCleanup(self.cluster.close)
        token = self.cluster.start_closed_coordinator("submitter", "--allow-token-only")
        ca = self.cluster.folder / "ca"
        self.longhaul("certs", "--dir", ca, "issue", "pool", "site-a")
        self.longhaul("certs", "--dir", ca / "other", "init")
        found, secret = json.loads(self.run_script("-c", CLOSED, self.cluster.address, ca, token))
        self.assertNotIn(secret, json.dumps(found))
        self.assertEqual([found[name] for name in ("listed", "beside a proxy", "logs", "metrics", "page", "waited", "again", "variables")],
                         [["closed"], ["closed"], [], [], [], "closed", 1, 1])
        for name in ("readable", "readable at once"):
            self.assertIn(f"FAILED_PRECONDITION: FAILED_PRECONDITION: token_file {token} holds a secret", found[name])
            self.assertIn(f"chmod 600 {token}", found[name])
        for name, words in (("page of another machine", "FAILED_PRECONDITION"), ("replaced", "UNAUTHENTICATED"), ("a pool", "a token is needed"), ("another authority", "UNAVAILABLE"),
                            ("plaintext", "UNAVAILABLE"), ("token in plaintext", "needs tls_ca"), ("nobody", "does not identify you"), ("half", "all of"), ("short.token", "one token of 16"),
                            ("lines.token", "one token of 16"), ("folder", "is not a file"), ("none", "NOT_FOUND")):
            self.assertIn(words, found[name], name)

    def test_a_certificate_is_a_user_where_there_are_no_tokens(self):
        self.cluster.close()
        self.cluster = Cluster()
        self.addCleanup(self.cluster.close)
        ca = self.cluster.folder / "ca"
        for command in (["init"], ["issue", "coordinator", "localhost", "--host", "127.0.0.1"], ["issue", "user", "carol"]):
            self.longhaul("certs", "--dir", ca, *command)
        shown = {"tls_ca": ca / "ca.pem", "tls_certificate": ca / "carol.pem", "tls_key": ca / "carol.key"}
        self.cluster.start_coordinator("--tls-ca", ca / "ca.pem", "--tls-certificate", ca / "localhost.pem", "--tls-key", ca / "localhost.key")
        script = "import sys, longhaul; print(longhaul.Client(sys.argv[1], tls_ca=sys.argv[2], tls_certificate=sys.argv[3], tls_key=sys.argv[4]).list())"
        self.assertEqual(self.run_script("-c", script, self.cluster.address, *shown.values()).strip(), "[]")
        shown["tls_key"].chmod(0o640)
        script = script.replace("; print", "\ntry: print") + "\nexcept longhaul.LonghaulError as error: print(error)"
        self.assertIn(f"tls_key {shown['tls_key']} holds a secret that other users can read or change: chmod 600",
                      self.run_script("-c", script, self.cluster.address, *shown.values()))

    def test_reflection_alone_drives_a_coordinator(self):
        shown = self.run_script("-E", ROOT / "deploy/python/examples/reflection.py", self.cluster.address, "reflected")
        self.assertIn("cancelled CANCELLED", shown)
        self.assertIn("listed ['reflected']", shown)


main()
