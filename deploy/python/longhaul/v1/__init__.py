"""Messages and stubs, generated from proto/longhaul/v1 when the package is built."""
