"""Errors of the coordinator with their details, as the CLI shows them."""

from __future__ import annotations

import contextlib
import dataclasses

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2


@dataclasses.dataclass(frozen=True)
class Field:
    """A field at fault: its path in the request, and what was found and expected."""

    field: str
    description: str


class LonghaulError(Exception):
    """A call failed. `code` is canonical ("NOT_FOUND"), `reason` stable ("JOB_UNKNOWN") or empty."""

    def __init__(self, code: str, message: str, reason: str = "", hint: str = "", fields: tuple[Field, ...] = (),
                 retry_after: float | None = None):
        super().__init__(f"{code}: {message}" + (f" (hint: {hint})" if hint and hint not in message else ""))
        self.code = code
        self.message = message
        self.reason = reason
        self.hint = hint
        self.fields = fields
        self.retry_after = retry_after


class SpecError(LonghaulError, ValueError):
    """A spec that is not one. `fields` says where, and what was meant."""

    def __init__(self, fields: tuple[Field, ...]):
        super().__init__("INVALID_ARGUMENT", "; ".join(f"{field.field}: {field.description}" for field in fields), "SPEC_INVALID", fields=fields)


def error_of(error: grpc.RpcError) -> LonghaulError:
    code = error.code().name  # type: ignore[attr-defined]
    message = error.details() or ""  # type: ignore[attr-defined]
    reason, hint, fields, retry_after = "", "", [], None
    status = status_pb2.Status()
    info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    for key, value in error.trailing_metadata() or ():  # type: ignore[attr-defined]
        if key == "grpc-status-details-bin":
            with contextlib.suppress(DecodeError):  # Not ours.
                status.ParseFromString(value)
    for detail in status.details:
        with contextlib.suppress(DecodeError):
            if detail.Unpack(info):
                reason, hint = info.reason, info.metadata.get("hint", "")
            elif detail.Unpack(bad):
                fields += [Field(violation.field, violation.description) for violation in bad.field_violations]
            elif detail.Unpack(retry):
                retry_after = retry.retry_delay.ToTimedelta().total_seconds()
    return LonghaulError(code, message, reason, hint, tuple(fields), retry_after)
