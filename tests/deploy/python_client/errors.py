"""A job that nobody runs, and what the client says of errors: server."""

import json
import sys

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
