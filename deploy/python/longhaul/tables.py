"""Jobs as rows for a DataFrame."""

from __future__ import annotations

from typing import Any

from longhaul.reports import Job, JobState
from longhaul.v1 import curves_pb2, job_pb2


def rows(job: Job | job_pb2.Job) -> list[dict[str, Any]]:
    """One row for each pool, as it is now."""
    return [
        {
            "job": job.spec.name,
            "state": str(JobState(job.state)),
            "pool": pool.pool,
            "live": pool.live,
            "ranks": pool.ranks,
            "step": pool.inner_step,
            "tokens": pool.tokens,
            "contributed_tokens": pool.contributed_tokens,
            "train_loss": pool.train_loss,
            "eval_loss": job.eval_loss.last if job.eval_loss.HasField("last") else None,
            "tokens_per_second": pool.tokens_per_second,
            "compute_seconds": pool.compute_seconds,
            "exposed_wait_seconds": pool.exposed_wait_seconds,
            "sync_seconds": pool.sync_seconds,
            # Where every pool evaluates the outer parameters on data of its own (graphs): accuracy and so on, of these
            # and of the pool's own parameters.
            **{f"outer_{metric.name}": metric.value for metric in pool.outer_evaluation},
            **{f"own_{metric.name}": metric.value for metric in pool.evaluation if pool.outer_evaluation},
        }
        for pool in job.pools
    ]


def history_rows(detail: dict[str, Any]) -> list[dict[str, Any]]:
    """Of JobDetail as JSON: {step, kind ("eval" or "train"), pool (None for eval), loss}, by step."""

    def row(point: dict[str, Any], kind: str, pool: str | None) -> dict[str, Any]:
        # Proto JSON leaves zeros out, and has 64-bit numbers as text.
        return {"step": int(point.get("step", 0)), "kind": kind, "pool": pool, "loss": float(point.get("loss", 0))}

    result = [row(point, "eval", None) for point in detail.get("evaluations", [])]
    for curve in detail.get("curves", []):
        result += [row(point, "train", curve["pool"]) for point in curve.get("points", [])]
    return sorted(result, key=lambda item: item["step"])


def curve_rows(answer: curves_pb2.GetCurvesResponse) -> list[dict[str, Any]]:
    """{step, time, pool (None for the outer parameters), name, value}, curve after curve."""
    return [
        {"step": point.step, "time": point.time, "pool": curve.pool or None, "name": curve.name, "value": point.value}
        for curve in answer.curves
        for point in curve.points
    ]
