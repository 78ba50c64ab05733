"""aiokafka's helper for TLS, for `from thalweg.aio.helpers import create_ssl_context`."""

import os
from collections.abc import Callable
from typing import Any, TypeAlias

from thalweg.config import TlsOptions

__all__ = ["create_ssl_context"]

_Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
_Password: TypeAlias = Callable[[], str | bytes | bytearray] | str | bytes | bytearray


def create_ssl_context(
    *,
    cafile: _Path | None = None,
    capath: _Path | None = None,
    cadata: str | bytes | None = None,
    certfile: _Path | None = None,
    keyfile: _Path | None = None,
    password: _Password | None = None,
) -> TlsOptions:
    """Creates a value for the option `ssl_context`, from arguments with aiokafka's names.

    It is not an `ssl.SSLContext`: TLS runs in the native core. Clients read the files, so a client
    raises the error of a file that is missing or malformed.

    Args:
        cafile: PEM file of the certificate authorities to trust. None: the system's.
        capath: Not supported. Use `cafile`.
        cadata: The authorities themselves, in place of `cafile`: PEM text or one DER certificate.
        certfile: PEM file of the client's certificate and its chain.
        keyfile: PEM file of the client's private key, if it is not in `certfile`.
        password: Of the private key. Clients refuse it, as they do `ssl_password`.

    Raises:
        ValueError: If `capath` is given, or both `cafile` and `cadata`.
    """
    if capath is not None:
        raise ValueError("capath is not supported: join the certificates into one file for cafile")
    if cafile is not None and cadata is not None:
        raise ValueError(
            "cafile and cadata cannot be used together: put all certificates into one of them"
        )
    options: dict[str, Any] = {
        "ssl_cafile": _text(cafile) if cadata is None else _pem(cadata),
        "ssl_certfile": _text(certfile),
        "ssl_keyfile": _text(keyfile),
        "ssl_password": password,
    }
    return TlsOptions({name: value for name, value in options.items() if value is not None})


def _text(path: _Path | None) -> str | None:
    return None if path is None else os.fsdecode(path)


def _pem(certificates: str | bytes) -> str:
    if isinstance(certificates, str):
        return certificates
    import ssl

    return ssl.DER_cert_to_PEM_cert(bytes(certificates))
