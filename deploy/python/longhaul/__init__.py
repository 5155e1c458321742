"""A thin, typed client of Longhaul's gRPC API."""

from longhaul.client import Client
from longhaul.errors import Field, LonghaulError
from longhaul.rows import rows
from longhaul.spec import job_spec

__all__ = ["Client", "Field", "LonghaulError", "job_spec", "rows"]
