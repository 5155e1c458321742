"""Job specs from plain dictionaries, as YAML parses to."""

from __future__ import annotations

from typing import Any, Mapping

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from longhaul.v1 import job_pb2


def _upper_case_choices(value: Any, kind: Descriptor) -> Any:
    """Choices may be written in any case, as in YAML; protobuf's parser wants them as declared."""
    if isinstance(value, (list, tuple)):
        return [_upper_case_choices(item, kind) for item in value]
    if not isinstance(value, Mapping):
        return value
    result = {}
    for name, item in value.items():
        field = kind.fields_by_name.get(name) or kind.fields_by_camelcase_name.get(name)
        if field is not None and field.type == FieldDescriptor.TYPE_ENUM and isinstance(item, str):
            item = item.upper()
        elif field is not None and field.type == FieldDescriptor.TYPE_MESSAGE:
            item = _upper_case_choices(item, field.message_type)
        result[name] = item
    return result


def job_spec(spec: Mapping[str, Any] | job_pb2.JobSpec) -> job_pb2.JobSpec:
    """ValueError names what is no field of a spec, or has another type."""
    if isinstance(spec, job_pb2.JobSpec):
        return spec
    message = job_pb2.JobSpec()
    try:
        json_format.ParseDict(_upper_case_choices(spec, message.DESCRIPTOR), message)
    except json_format.ParseError as error:
        raise ValueError(str(error)) from error
    return message
