"""A thin, typed client of Longhaul's gRPC API; `python -m longhaul.tokenize` makes tokens of text."""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longhaul.aio import AsyncClient
    from longhaul.client import Client
    from longhaul.errors import Field, LonghaulError, SpecError
    from longhaul.reports import Forecast, Job, JobEvent, JobState, Pool
    from longhaul.spec import job_spec
    from longhaul.tables import rows

__version__: str
__all__ = ["AsyncClient", "Client", "Field", "Forecast", "Job", "JobEvent", "JobState", "LonghaulError", "Pool", "SpecError", "__version__", "job_spec", "rows"]

_HOMES = {"AsyncClient": "aio", "Client": "client", "Field": "errors", "LonghaulError": "errors", "SpecError": "errors", "Forecast": "reports", "Job": "reports",
          "JobEvent": "reports", "JobState": "reports", "Pool": "reports", "job_spec": "spec", "rows": "tables"}
_MODULES = frozenset({"access", "aio", "client", "download", "errors", "reports", "spec", "tables", "tokenize", "upload", "v1"})


def __getattr__(name: str) -> Any:
    """What needs gRPC and protobuf is imported when it is used: the tokenizer works without them, whatever their versions."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"longhaul.{_HOMES[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"longhaul.{name}")
    if name == "__version__":
        return importlib.metadata.version("longhaul-client")
    raise AttributeError(f"module 'longhaul' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
