"""The client for asyncio: the calls of Client that such programs need, without a thread for each."""

from __future__ import annotations

import asyncio
import builtins
from typing import Any, AsyncIterator, Iterable, Mapping

import grpc
import grpc.aio

from longhaul.access import Access
from longhaul.client import RECONNECT_FOR, RESTING, Watching, server_of
from longhaul.errors import error_of
from longhaul.reports import Forecast, Job, JobEvent, Pool
from longhaul.spec import job_sites, job_spec
from longhaul.tables import curve_rows
from longhaul.v1 import curves_pb2, curves_pb2_grpc, job_pb2, job_pb2_grpc, plan_pb2, pool_pb2, pool_pb2_grpc


class AsyncClient:
    """Arguments and errors are those of Client. Use it in one event loop, in an `async with`, or close it. Folders are sent,
    and checkpoints copied, by Client in a thread (asyncio.to_thread)."""

    def __init__(self, server: str | None = None, *, tls_ca: str | None = None, tls_certificate: str | None = None,
                 tls_key: str | None = None, token_file: str | None = None, timeout: float = 30):
        self.server = server_of(server)
        self.timeout = timeout
        self._access = Access(tls_ca, tls_certificate, tls_key, token_file)
        self._channel = self._access.channel(self.server, grpc.aio)
        self._jobs = job_pb2_grpc.JobServiceStub(self._channel)
        self._pools = pool_pb2_grpc.PoolServiceStub(self._channel)
        self._curves = curves_pb2_grpc.CurveServiceStub(self._channel)

    async def close(self) -> None:
        await self._channel.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _call(self, method: Any, request: Any) -> Any:
        try:
            return await method(request, timeout=self.timeout, metadata=self._access.metadata())
        except grpc.RpcError as error:
            raise error_of(error) from error

    async def submit(self, spec: Mapping[str, Any] | job_pb2.JobSpec, *, token: str = "", validate_only: bool = False) -> Job:
        request = job_pb2.SubmitJobRequest(spec=job_spec(spec), idempotency_token=token, validate_only=validate_only)
        return Job((await self._call(self._jobs.SubmitJob, request)).job)

    async def plan(self, spec: Mapping[str, Any] | job_pb2.JobSpec, sites: Mapping[str, Any] | plan_pb2.Sites | None = None) -> Forecast:
        request = job_pb2.PlanJobRequest(spec=job_spec(spec), sites=None if sites is None else job_sites(sites))
        planned = await self._call(self._jobs.PlanJob, request)
        return Forecast(planned.forecast, planned.sites)

    async def get(self, job: str) -> Job:
        return Job((await self._call(self._jobs.GetJob, job_pb2.GetJobRequest(job=job))).job)

    async def list(self, limit: int = 1000) -> builtins.list[Job]:
        jobs: builtins.list[Job] = []
        request = job_pb2.ListJobsRequest()
        while len(jobs) < limit:
            request.page_size = min(20, limit - len(jobs))
            page = await self._call(self._jobs.ListJobs, request)
            jobs += map(Job, page.jobs)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        return jobs

    async def cancel(self, job: str, reason: str = "") -> Job:
        return Job((await self._call(self._jobs.CancelJob, job_pb2.CancelJobRequest(job=job, reason=reason))).job)

    async def pause(self, job: str, reason: str = "") -> Job:
        return Job((await self._call(self._jobs.PauseJob, job_pb2.PauseJobRequest(job=job, reason=reason))).job)

    async def resume(self, job: str) -> Job:
        return Job((await self._call(self._jobs.ResumeJob, job_pb2.ResumeJobRequest(job=job))).job)

    async def events(self, job: str) -> builtins.list[JobEvent]:
        return [JobEvent(event) for event in (await self._call(self._jobs.ListEvents, job_pb2.ListEventsRequest(job=job))).events]

    async def curves(self, job: str, names: Iterable[str] = ()) -> builtins.list[dict[str, Any]]:
        return curve_rows(await self._call(self._curves.GetCurves, curves_pb2.GetCurvesRequest(job=job, names=names)))

    async def pools(self) -> builtins.list[Pool]:
        request = pool_pb2.ListPoolsRequest()
        pools: builtins.list[Pool] = []
        while True:
            page = await self._call(self._pools.ListPools, request)
            pools += map(Pool, page.pools)
            if not page.next_page_token:
                return pools
            request.page_token = page.next_page_token

    async def watch(self, job: str, timeout: float | None = None, reconnect_for: float = RECONNECT_FOR) -> AsyncIterator[Job]:
        watching = Watching(job, timeout, reconnect_for)
        while True:
            request, left = watching.opens()
            failed = None
            try:
                async for update in self._jobs.WatchJob(request, timeout=left, metadata=self._access.metadata()):
                    yield watching.takes(update)
                    if update.job.state in RESTING:
                        return
            except grpc.RpcError as call:
                failed = call
            await asyncio.sleep(watching.pause(failed))

    async def wait(self, job: str, timeout: float | None = None) -> Job:
        last = None
        async for last in self.watch(job, timeout):
            pass
        assert last is not None  # watch gives at least one, or raises.
        return last
