"""A clock that nobody waits for, and streams that end as a test wants: (seconds until then, jobs' states before, error)."""

import json
import types

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
