"""aiokafka's helper for TLS, for `from thalweg.aio.helpers import create_ssl_context`."""

from thalweg.helpers import create_ssl_context

__all__ = ["create_ssl_context"]
