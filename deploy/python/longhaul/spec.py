"""Job specs from plain dictionaries, as YAML parses to."""

from __future__ import annotations

import difflib
from typing import Any, Iterator, Mapping, TypeVar

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from longhaul.errors import Field, SpecError
from longhaul.v1 import job_pb2, plan_pb2

M = TypeVar("M", bound=Message)


def _nearest(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name.lower(), names, n=1)
    return f" (did you mean {near[0]!r}?)" if near else f" (one of {', '.join(names)})" if len(names) <= 16 else ""


def _checked(value: Any, kind: Descriptor, path: str, faults: list[Field]) -> Any:
    """The value, of a message of this kind, with choices as protobuf's parser wants them: YAML may have them in any case."""
    if isinstance(value, (list, tuple)):
        return [_checked(item, kind, f"{path}[{i}]", faults) for i, item in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    result = {}
    for name, item in value.items():
        at = f"{path}.{name}" if path else str(name)
        field = kind.fields_by_name.get(name) or kind.fields_by_camelcase_name.get(name)
        if field is None:
            faults.append(Field(at, "unknown field" + _nearest(str(name), list(kind.fields_by_name))))
        elif field.type == FieldDescriptor.TYPE_ENUM and isinstance(item, str):
            item = item.upper()
            choices = [choice.name for choice in field.enum_type.values if not choice.name.endswith("_UNSPECIFIED")]
            if item not in choices:
                lower = [choice.lower() for choice in choices]
                faults.append(Field(at, f"{item.lower()!r} is not one of {', '.join(lower)}" + (_nearest(item, lower) if len(lower) > 16 else "")))
        elif field.type == FieldDescriptor.TYPE_MESSAGE and not field.message_type.full_name.startswith("google.protobuf."):
            entries = field.message_type.GetOptions().map_entry
            item = item if entries else _checked(item, field.message_type, at, faults)
        result[name] = item
    return result


def job_spec(spec: Mapping[str, Any] | job_pb2.JobSpec) -> job_pb2.JobSpec:
    """SpecError names every unknown field and what was meant, or a value of another type."""
    return _message(spec, job_pb2.JobSpec(), "spec")


def job_sites(sites: Mapping[str, Any] | plan_pb2.Sites) -> plan_pb2.Sites:
    """The sites of a forecast, as the file of `longhaul plan --sites` has them. SpecError as for job_spec."""
    return _message(sites, plan_pb2.Sites(), "sites")


def _message(given: Any, message: M, name: str) -> M:
    if isinstance(given, type(message)):
        return given
    faults = list[Field]()
    checked = _checked(given, message.DESCRIPTOR, "", faults)
    if faults:
        raise SpecError(tuple(faults))
    try:
        json_format.ParseDict(checked, message)
    except json_format.ParseError as error:
        raise SpecError((Field(name, str(error)),)) from error
    return message


def _texts(field: str, holder: Any) -> Iterator[tuple[str, Any]]:
    """The sources of text and JSONL of a holder of sources, with the names of their fields."""
    for kind in ("text", "jsonl"):
        if holder.HasField(kind):
            yield f"{field}.{kind}", getattr(holder, kind)
    if "mixture" in holder.DESCRIPTOR.fields_by_name and holder.HasField("mixture"):
        for i, source in enumerate(holder.mixture.sources):
            yield from _texts(f"{field}.mixture.sources[{i}]", source)


def require_tokenizers(spec: job_pb2.JobSpec, tokenizer: str) -> None:
    """SpecError unless each source of text names a tokenizer: for a checkpoint with one, in this folder, which is not uploaded with it."""
    holders = [("data", spec.data), *((f"data.pools[{i}]", pool) for i, pool in enumerate(spec.data.pools))]
    for field, source in (found for name, holder in holders for found in _texts(name, holder)):
        if source.tokenizer in ("", "model"):
            raise SpecError((Field(f"{field}.tokenizer", f"is required: the model of this checkpoint has a tokenizer ({tokenizer}), which is not uploaded "
                                   "with it; set the path that it has at each site, or start from the job's own checkpoint or an export of this one"),))
