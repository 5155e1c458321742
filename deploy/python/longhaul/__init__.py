"""A thin, typed client of Longhaul's gRPC API; `python -m longhaul.tokenize` makes tokens of text."""

import importlib.util

# The tokenizer works where grpcio is not installed.
if importlib.util.find_spec("grpc") is not None:
    from longhaul.client import Client
    from longhaul.errors import Field, LonghaulError
    from longhaul.rows import rows
    from longhaul.spec import job_spec

    __all__ = ["Client", "Field", "LonghaulError", "job_spec", "rows"]
