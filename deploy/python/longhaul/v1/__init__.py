"""Messages and stubs, generated from proto/longhaul/v1 when the package is built."""

import importlib
import pkgutil
import warnings

with warnings.catch_warnings():
    # The code is of protobuf 6, and protobuf promises that it runs with 7 as well; each module would warn of that.
    warnings.filterwarnings("ignore", "Protobuf gencode version .* is exactly one major version older")
    for _module in pkgutil.iter_modules(__path__):
        if _module.name.endswith("_pb2"):
            importlib.import_module(f"{__name__}.{_module.name}")
