"""The coordinator as Python sees it."""

from __future__ import annotations

import builtins
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Iterable, Iterator, Mapping

import grpc

from longhaul.access import Access, is_here
from longhaul.download import Downloading
from longhaul.errors import LonghaulError, error_of
from longhaul.reports import Forecast, Job, JobEvent, JobState, Pool
from longhaul.spec import job_sites, job_spec, require_tokenizers
from longhaul.tables import curve_rows, history_rows
from longhaul.upload import Sending, read_folder
from longhaul.v1 import checkpoint_pb2, curves_pb2, curves_pb2_grpc, job_pb2, job_pb2_grpc, logs_pb2, logs_pb2_grpc, plan_pb2, pool_pb2, pool_pb2_grpc, server_pb2, server_pb2_grpc, upload_pb2_grpc

# Nothing changes any more until somebody does something.
RESTING = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.QUARANTINED})
RECONNECT_SECONDS = 1.0
RECONNECT_FOR = 600.0  # How long a coordinator that has answered may be away.
CONNECT_SECONDS_MAX = 180.0  # As in the CLI (kConnectMax): a stream that ended after a longer time was open, even if nothing came.


def server_of(given: str | None) -> str:
    return given or os.environ.get("LONGHAUL_SERVER") or "localhost:7070"


class Absence:
    """How long the coordinator is away, as a stream sees it that is opened again and again. A stream may be open and quiet
    for hours: its end begins the absence, not the last message."""

    def __init__(self, longest: float):
        self._longest = longest
        self._answered = False
        self._opened_at = 0.0
        self._since: float | None = None

    def opens(self) -> None:
        self._opened_at = time.monotonic()

    def answers(self) -> None:
        self._answered, self._since = True, None

    def may_try_again(self, error: LonghaulError) -> bool:
        now = time.monotonic()
        if self._since is None or now - self._opened_at > CONNECT_SECONDS_MAX:
            self._since = now
        # A coordinator with too many streams says when to come back.
        away = error.code in ("UNAVAILABLE", "CANCELLED") or error.code == "RESOURCE_EXHAUSTED" and error.retry_after is not None
        return self._answered and away and now - self._since < self._longest


class Watching:
    """Where a watch of a job is, which opens its stream again and again: for Client.watch and AsyncClient.watch."""

    def __init__(self, job: str, timeout: float | None, reconnect_for: float):
        self._job = job
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._cursor, self._absence = 0, Absence(reconnect_for)

    def _left(self, least: float) -> float | None:
        return None if self._deadline is None else max(least, self._deadline - time.monotonic())

    def opens(self) -> tuple[job_pb2.WatchJobRequest, float | None]:
        """The request of the next stream, and how long it may take."""
        self._absence.opens()
        return job_pb2.WatchJobRequest(job=self._job, cursor=self._cursor), self._left(0.001)

    def takes(self, update: job_pb2.WatchJobResponse) -> Job:
        self._cursor = update.cursor
        self._absence.answers()
        self._job = update.job.id  # The name of a job that was deleted may be another's by now.
        return Job(update.job)

    def pause(self, call: grpc.RpcError | None) -> float:
        """How long to wait before the next stream, after this one ended, or failed with `call`. Raises if none follows."""
        pause = RECONNECT_SECONDS
        if call is not None:
            error = error_of(call)
            if error.code == "OUT_OF_RANGE" and self._cursor:  # A coordinator that counts anew.
                self._cursor = 0
            elif not self._absence.may_try_again(error):
                raise error from call
            elif self._left(0) == 0:
                raise LonghaulError("DEADLINE_EXCEEDED", f"the coordinator is away: {error.message}") from call
            pause = max(pause, error.retry_after or 0)
        left = self._left(0)
        return pause if left is None else min(pause, left)


class Client:
    """Thread-safe. Every call blocks, at most `timeout` seconds, and raises LonghaulError.

    `server`: HOST:PORT; else LONGHAUL_SERVER, else localhost:7070. TLS: `tls_ca` verifies the coordinator; a certificate
    with its key, or a file with a token, says who you are; else LONGHAUL_TLS_CA, LONGHAUL_TLS_CERTIFICATE, LONGHAUL_TLS_KEY
    and LONGHAUL_TOKEN_FILE. The token's file is read for each call; one that others may read is refused. ValueError:
    these do not go together. Close it, or use it in a `with`.
    """

    def __init__(self, server: str | None = None, *, tls_ca: str | None = None, tls_certificate: str | None = None,
                 tls_key: str | None = None, token_file: str | None = None, timeout: float = 30):
        self.server = server_of(server)
        self.timeout = timeout
        self._access = Access(tls_ca, tls_certificate, tls_key, token_file)
        self._channel = self._access.channel(self.server)
        self._jobs = job_pb2_grpc.JobServiceStub(self._channel)
        self._pools = pool_pb2_grpc.PoolServiceStub(self._channel)
        self._logs = logs_pb2_grpc.LogServiceStub(self._channel)
        self._server = server_pb2_grpc.ServerServiceStub(self._channel)
        self._uploads = upload_pb2_grpc.UploadServiceStub(self._channel)
        self._curves = curves_pb2_grpc.CurveServiceStub(self._channel)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: Any, request: Any) -> Any:
        try:
            return method(request, timeout=self.timeout, metadata=self._access.metadata())
        except grpc.RpcError as error:
            raise error_of(error) from error

    def submit(self, spec: Mapping[str, Any] | job_pb2.JobSpec, *, begin_from: str | os.PathLike[str] | None = None, token: str = "",
               validate_only: bool = False) -> Job:
        """Same name and spec again: the existing job, unless it failed or was cancelled. SpecError: the spec is not a spec.

        `begin_from` is what the CLI's --from is: "JOB" or "JOB@STEP", a checkpoint of another job; a folder of this machine
        (a checkpoint's, or a Hugging Face model's), which is sent if the coordinator accepts the job and lacks it;
        "coordinator:DIR", a folder within the coordinator's --import-dir."""
        message = job_pb2.JobSpec()
        message.CopyFrom(job_spec(spec))
        folder = None
        if begin_from is not None:
            name = os.fspath(begin_from)
            if name.startswith("coordinator:"):
                message.init.folder = name.removeprefix("coordinator:")
            elif os.path.isdir(name):
                tokenizer = os.path.join(name, "tokenizer")
                if os.path.exists(os.path.join(tokenizer, ".files")):
                    require_tokenizers(message, tokenizer)
                folder = read_folder(name)
                message.init.upload = folder.upload
            elif "/" in name:
                raise FileNotFoundError(f"begin_from: {name} is not a local folder")
            else:
                message.init.checkpoint = name
        request = job_pb2.SubmitJobRequest(spec=message, idempotency_token=token, validate_only=validate_only)
        # Without a model there is nothing to check before the folder is there, which brings one.
        if folder is None or validate_only or message.HasField("model"):
            try:
                return Job(self._call(self._jobs.SubmitJob, request).job)
            except LonghaulError as error:
                if folder is None or validate_only or error.reason != "UPLOAD_UNKNOWN":
                    raise
        Sending(self._uploads, self._access.metadata, folder, self.timeout, RECONNECT_FOR).run()
        return Job(self._call(self._jobs.SubmitJob, request).job)

    def plan(self, spec: Mapping[str, Any] | job_pb2.JobSpec, sites: Mapping[str, Any] | plan_pb2.Sites | None = None) -> Forecast:
        """What a job with this spec would take: time, utilization, bytes and memory of each pool, and what was assumed. Nothing is
        submitted. `sites`: the pools, as the file of `longhaul plan --sites` has them; else those that are connected, as fast as
        they measured and as in their newest job. LonghaulError with the reason NO_POOL: none of them could do it."""
        request = job_pb2.PlanJobRequest(spec=job_spec(spec), sites=None if sites is None else job_sites(sites))
        planned = self._call(self._jobs.PlanJob, request)
        return Forecast(planned.forecast, planned.sites)

    def upload(self, folder: str | os.PathLike[str], reconnect_for: float = RECONNECT_FOR) -> str:
        """Sends a folder of this machine, a checkpoint's or a Hugging Face model's; what the coordinator has of it is not
        sent. Its name, for `init.upload` of a spec. Goes on over restarts of the coordinator, which may be away for
        `reconnect_for` seconds once it has answered. ValueError: it is no such folder. OSError: it cannot be read."""
        read = read_folder(folder)
        Sending(self._uploads, self._access.metadata, read, self.timeout, reconnect_for).run()
        return read.upload

    def get(self, job: str) -> Job:
        """`job`: name or id, here and below."""
        return Job(self._call(self._jobs.GetJob, job_pb2.GetJobRequest(job=job)).job)

    def list(self, limit: int = 1000) -> builtins.list[Job]:
        """Newest first. Large parts of their specs are left out (`spec_shortened`); `get` has them."""
        jobs: builtins.list[Job] = []
        request = job_pb2.ListJobsRequest()
        while len(jobs) < limit:
            request.page_size = min(20, limit - len(jobs))  # A page must fit in a message.
            page = self._call(self._jobs.ListJobs, request)
            jobs += map(Job, page.jobs)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        return jobs

    def cancel(self, job: str, reason: str = "") -> Job:
        return Job(self._call(self._jobs.CancelJob, job_pb2.CancelJobRequest(job=job, reason=reason)).job)

    def pause(self, job: str, reason: str = "") -> Job:
        """Gives the job's pools back until `resume`: it is PAUSING while they stop, then PAUSED."""
        return Job(self._call(self._jobs.PauseJob, job_pb2.PauseJobRequest(job=job, reason=reason)).job)

    def resume(self, job: str) -> Job:
        """Queues a paused job again."""
        return Job(self._call(self._jobs.ResumeJob, job_pb2.ResumeJobRequest(job=job)).job)

    def checkpoints(self, job: str) -> builtins.list[checkpoint_pb2.CheckpointManifest]:
        """Oldest first."""
        return [*self._call(self._jobs.ListCheckpoints, job_pb2.ListCheckpointsRequest(job=job)).checkpoints]

    def checkpoint(self, job: str) -> tuple[int, str]:
        """Asks for a checkpoint at the next whole version: its step, and the folder that it will have at the coordinator."""
        answer = self._call(self._jobs.CreateCheckpoint, job_pb2.CreateCheckpointRequest(job=job))
        return answer.step, answer.path

    def delete(self, job: str) -> bool:
        """Removes a job that has ended, with its files. False: it had been deleted before."""
        return self._call(self._jobs.DeleteJob, job_pb2.DeleteJobRequest(job=job)).deleted

    def events(self, job: str) -> builtins.list[JobEvent]:
        """What happened to the job, oldest first."""
        return [JobEvent(event) for event in self._call(self._jobs.ListEvents, job_pb2.ListEventsRequest(job=job)).events]

    def pools(self) -> builtins.list[Pool]:
        request = pool_pb2.ListPoolsRequest()
        pools: builtins.list[Pool] = []
        while True:
            page = self._call(self._pools.ListPools, request)
            pools += map(Pool, page.pools)
            if not page.next_page_token:
                return pools
            request.page_token = page.next_page_token

    def describe(self) -> server_pb2.DescribeResponse:
        """The coordinator about itself."""
        return self._call(self._server.Describe, server_pb2.DescribeRequest())

    def watch(self, job: str, timeout: float | None = None, reconnect_for: float = RECONNECT_FOR) -> Iterator[Job]:
        """The job now and after each change, until it rests (ended, or quarantined). Goes on over restarts of the
        coordinator, which may be away for `reconnect_for` seconds once it has answered. `timeout`: of the whole watch;
        LonghaulError with code DEADLINE_EXCEEDED."""
        watching = Watching(job, timeout, reconnect_for)
        while True:
            request, left = watching.opens()
            failed = None
            try:
                for update in self._jobs.WatchJob(request, timeout=left, metadata=self._access.metadata()):
                    yield watching.takes(update)
                    if update.job.state in RESTING:
                        return
            except grpc.RpcError as call:
                failed = call
            time.sleep(watching.pause(failed))

    def wait(self, job: str, timeout: float | None = None) -> Job:
        """The job as it ended (or was quarantined); look at its state."""
        last = None
        for last in self.watch(job, timeout):
            pass
        assert last is not None  # watch gives at least one, or raises.
        return last

    def logs(self, job: str = "", pool: str = "", *, tail: int = 100, follow: bool = False,
             reconnect_for: float = RECONNECT_FOR) -> Iterator[tuple[str, str]]:
        """(pool, line): the newest `tail` lines of each node, then, with `follow`, what is written from now on. Following
        goes on over restarts of the coordinator, which may be away for `reconnect_for` seconds once it has answered: first
        come the lines that were written meanwhile. Lines that are lost, because a node keeps only its newest, are counted
        in a line of their own. With a coordinator or agents of an earlier version, what is written meanwhile does not come."""
        request = logs_pb2.FollowLogsRequest(job_id=self.get(job).id if job else "", pool=pool, tail=tail, follow=follow)
        absence, numbered = Absence(reconnect_for), True
        positions: dict[tuple[str, int], logs_pb2.LogPosition] = {}
        while True:
            absence.opens()
            try:
                for lines in self._logs.FollowLogs(request, timeout=None if follow else self.timeout, metadata=self._access.metadata()):
                    absence.answers()
                    place = lines.pool, lines.node
                    numbered = numbered and lines.ring != 0
                    if place in positions and positions[place].ring != lines.ring:
                        yield lines.pool, "(its agent was restarted; the last lines before that may be missing)"
                    if lines.ring:
                        positions[place] = logs_pb2.LogPosition(pool=lines.pool, node=lines.node, ring=lines.ring, next=lines.next)
                    if lines.dropped:
                        yield lines.pool, f"({lines.dropped} lines are lost)"
                    for line in lines.text.decode(errors="replace").splitlines():
                        yield lines.pool, line
                return
            except grpc.RpcError as call:
                error = error_of(call)
                if not follow or not absence.may_try_again(error):
                    raise error from call
            del request.positions[:]
            request.positions.extend(positions.values())
            if not numbered:  # What came must not come again.
                request.tail = 0
            time.sleep(max(RECONNECT_SECONDS, error.retry_after or 0))

    def curves(self, job: str, names: Iterable[str] = ()) -> builtins.list[dict[str, Any]]:
        """All curves of a job, or those of these names, also after its end, as rows for a DataFrame: {step, time, pool, name,
        value}. `pool` is None for the outer parameters; `name` is "eval/loss", "train/loss", "train/learning_rate",
        "train/gradient_norm", "train/tokens_per_second", ... Of long curves 512 points. UNIMPLEMENTED: the coordinator is of
        an earlier version."""
        return curve_rows(self._call(self._curves.GetCurves, curves_pb2.GetCurvesRequest(job=job, names=names)))

    def download(self, job: str, out: str | os.PathLike[str], step: int | None = None, reconnect_for: float = RECONNECT_FOR) -> int:
        """Copies a checkpoint of the job, the newest or that of a step, into the new folder `out`, and verifies it. Its step.
        What was copied before a break is in `out`.partial; another call continues there. Goes on over restarts of the
        coordinator. OSError: the folder exists, or cannot be written."""
        return Downloading(self._jobs, self._access.metadata, job, step, os.fspath(out), reconnect_for).run()

    def metrics(self, job: str, page: str | None = None) -> builtins.list[dict[str, Any]]:
        """Losses so far, as rows for a DataFrame: {step, kind ("eval" or "train"), pool, loss}. They come from the
        coordinator's status page: `page` is its HOST:PORT, if this machine reaches it elsewhere than where it
        listens (https://HOST:PORT: with TLS). Without TLS a token goes there only on this machine, or where `page` is
        given. A coordinator of another machine that shows its page only there needs `page`. `longhaul.rows` needs no page, and has what is true now."""
        server = None if page else self.describe()
        address = page or (server.http_address if server else "")
        if not address:
            raise LonghaulError("FAILED_PRECONDITION", "the coordinator serves no status page", hint="start it with --http-listen")
        if not page and is_here(address) and not is_here(self.server):  # Its localhost is not ours.
            raise LonghaulError("FAILED_PRECONDITION", f"the coordinator serves its status page only on its own machine, at {address}",
                                hint="give page=HOST:PORT to reach it another way")
        tls = address.startswith("https://") or bool(server and server.http_tls)
        url = f"http{'s' if tls else ''}://{address.removeprefix('https://')}/api/v1/job?" + urllib.parse.urlencode({"name": job})
        question = urllib.request.Request(url)
        if page or tls or is_here(address):
            for name, value in self._access.metadata():
                question.add_unredirected_header(name, value)
        try:
            # No proxy sees the token.
            with urllib.request.build_opener(urllib.request.ProxyHandler({}), *self._access.https(tls)).open(question, timeout=self.timeout) as response:
                return history_rows(json.load(response))
        except urllib.error.HTTPError as error:
            code = {404: "NOT_FOUND", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}.get(error.code, "UNKNOWN")
            raise LonghaulError(code, f"{url}: {error.reason}") from error
        except OSError as error:
            raise LonghaulError("UNAVAILABLE", f"{url}: {error}", hint="give page=HOST:PORT to reach it another way") from error
