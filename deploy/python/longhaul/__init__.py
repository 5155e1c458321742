"""A thin, typed client of Longhaul's gRPC API; `python -m longhaul.tokenize` makes tokens of text."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longhaul.client import Client
    from longhaul.errors import Field, LonghaulError
    from longhaul.rows import rows
    from longhaul.spec import job_spec

# Found when asked for: the tokenizer needs nothing of gRPC.
_FOUND_IN = {"Client": "client", "Field": "errors", "LonghaulError": "errors", "job_spec": "spec", "rows": "rows"}

__all__ = ["Client", "Field", "LonghaulError", "job_spec", "rows"]


def __getattr__(name):
    if name not in _FOUND_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_FOUND_IN[name]}"), name)
