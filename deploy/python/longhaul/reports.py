"""What the coordinator reports, with names in place of numbers. A report has every field of its message (proto/longhaul/v1)."""

from __future__ import annotations

import enum
import functools
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from longhaul.v1 import event_pb2, job_pb2, plan_pb2, pool_pb2

M = TypeVar("M", bound=Message)


class Named(enum.IntEnum):
    """An enum of the contract: equal to its number, shown by its name. One of a newer coordinator has a number for a name."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_, member._value_ = f"{cls.__name__}_{value}", value
        return member

    def __str__(self) -> str:
        return str(self.name)

    def __format__(self, form: str) -> str:
        return format(str(self), form)


class JobState(Named):
    """The state of a job; proto/longhaul/v1/job.proto says what each means."""

    JOB_STATE_UNSPECIFIED = 0
    PENDING = 1
    SEEDING = 2
    RUNNING = 3
    FINISHING = 4
    COMPLETED = 5
    FAILED = 6
    CANCELLED = 7
    QUARANTINED = 8
    PAUSING = 9
    PAUSED = 10


@functools.cache
def _names_of(kind: EnumDescriptor) -> type[Named]:
    if kind.full_name == "longhaul.v1.JobState":
        return JobState
    return Named(kind.name, [(value.name, value.number) for value in kind.values])  # type: ignore


class Report(Generic[M]):
    """`proto` is the protobuf message, for what takes only that (json_format.MessageToDict, CopyFrom)."""

    proto: M

    def __init__(self, message: M):
        object.__setattr__(self, "proto", message)

    def __getattr__(self, name: str) -> Any:
        if name == "proto":  # While it is unpickled or copied.
            raise AttributeError(name)
        value = getattr(self.proto, name)
        field = self.proto.DESCRIPTOR.fields_by_name.get(name)
        one = field is not None and field.type == FieldDescriptor.TYPE_ENUM and isinstance(value, int)
        return _names_of(field.enum_type)(value) if one else value

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is a report: change a copy of its proto")

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self.proto.DESCRIPTOR.fields_by_name})

    def __eq__(self, other: object) -> bool:
        return self.proto == (other.proto if isinstance(other, Report) else other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return type(self), (self.proto,)

    def __str__(self) -> str:
        return repr(self)


if TYPE_CHECKING:
    # Type checkers see the fields of the messages.
    class Job(job_pb2.Job):
        proto: job_pb2.Job
        name: str
        state: JobState  # type: ignore[assignment]

    class Pool(pool_pb2.Pool):
        proto: pool_pb2.Pool

    class JobEvent(event_pb2.JobEvent):
        proto: event_pb2.JobEvent

    class Forecast(plan_pb2.JobForecast):
        proto: plan_pb2.JobForecast
        sites: plan_pb2.Sites

else:

    class Job(Report[job_pb2.Job]):
        """A job. `state` is a JobState, `name` that of its spec."""

        @property
        def name(self):
            return self.proto.spec.name

        @property
        def metrics(self):
            """Of the newest evaluation of the outer parameters, by name: {"loss": 0.9, "accuracy": 0.75}."""
            return {metric.name: metric.value for metric in self.proto.eval_loss.metrics}

        def __repr__(self):
            loss = f", eval loss {self.eval_loss.last:.4f}" if self.eval_loss.HasField("last") else ""
            error = f", {self.error.code}: {self.error.message}" if self.proto.HasField("error") else ""
            return f"<Job {self.name} {self.state}, step {self.inner_step}/{self.spec.train.steps}{loss}{error}>"

    class Pool(Report[pool_pb2.Pool]):
        def __repr__(self):
            return f"<Pool {self.name} {self.state}, ranks {self.ranks}{f', job {self.job or self.job_id}' if self.job_id else ''}>"

    class JobEvent(Report[event_pb2.JobEvent]):
        def __repr__(self):
            pool = f" {self.pool}" if self.pool else ""
            return f"<JobEvent {self.at.ToJsonString()} {self.severity} {self.kind}{pool}: {self.message}>"

    class Forecast(Report[plan_pb2.JobForecast]):
        """What a job would take. `sites`: those of the forecast, with what was assumed."""

        def __init__(self, message, sites=None):
            super().__init__(message)
            object.__setattr__(self, "sites", plan_pb2.Sites() if sites is None else sites)

        def __reduce__(self):
            return type(self), (self.proto, self.sites)

        def __repr__(self):
            return f"<Forecast {self.seconds:.3g} s, utilization {self.utilization:.1%}, {len(self.assumptions)} assumptions>"
