"""aiokafka's helper for TLS, for `from thalweg.helpers import create_ssl_context`."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from ssl import SSLContext

    from thalweg._config.secret import Secret

__all__ = ["create_ssl_context"]

_Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
_Text: TypeAlias = "str | bytes | bytearray | Secret"
_Password: TypeAlias = "Callable[[], _Text] | _Text"


def create_ssl_context(
    *,
    cafile: _Path | None = None,
    capath: _Path | None = None,
    cadata: str | bytes | None = None,
    certfile: _Path | None = None,
    keyfile: _Path | None = None,
    password: "_Password | None" = None,
) -> "SSLContext":
    """Creates a context for the option `ssl_context`, like aiokafka's function of the same name.

    A client of this package uses everything in the context, including the client certificate.
    Before you create the client, you may change settings of the context, such as `check_hostname`
    or `minimum_version`. The client reads the files again when they change. Other libraries can use
    the context, too.

    Args:
        cafile: PEM file of the certificate authorities to trust. If you give none of `cafile`,
            `capath` and `cadata`, the context trusts the system's authorities.
        capath: Folder with PEM files of authorities, as `openssl rehash` prepares it.
        cadata: The authorities themselves: a PEM string, or certificates in DER.
        certfile: PEM file of the client's certificate and its chain.
        keyfile: PEM file of the client's private key, if it is not in `certfile`.
        password: The password of the private key, or a function that returns the password. It may
            be a `Secret`. This function needs the password now, and the client each time it reads
            the file.

    Raises:
        ValueError: If you give more than one of `cafile`, `capath` and `cadata`, because the client
            can read the authorities from only one place.
        OSError: If a file cannot be read, or contains no certificate or key. `ssl.SSLError` is an
            OSError, too.
    """
    import ssl

    from thalweg._config.ssl_context import RememberingContext

    # No frame of an error has the password.
    secret: Any = password if password is None or callable(password) else _hidden(password)
    del password
    if sum(each is not None for each in (cafile, capath, cadata)) > 1:
        raise ValueError(
            "cafile, capath and cadata cannot be used together: put all certificates into one of"
            " them"
        )
    context = RememberingContext(ssl.PROTOCOL_TLS_CLIENT)
    options: dict[str, Any] = {}
    context.thalweg_options = options
    authorities: Any = None
    if cafile is not None or capath is not None:
        context.load_verify_locations(cafile, capath)
        authorities = os.fsdecode(cafile if capath is None else capath)  # type: ignore[arg-type]
    elif cadata is not None:
        context.load_verify_locations(cadata=cadata)
        found = context.get_ca_certs(binary_form=True)
        authorities = "".join(map(ssl.DER_cert_to_PEM_cert, found))
    else:
        context.load_default_certs()
    if certfile is not None:
        context.load_cert_chain(certfile, keyfile, _for_openssl(secret))
        options["ssl_certfile"] = os.fsdecode(certfile)
    if keyfile is not None:
        options["ssl_keyfile"] = os.fsdecode(keyfile)
    if secret is not None:
        options["ssl_password"] = secret
    if authorities is not None:
        options["ssl_cafile"] = authorities
    context.thalweg_is_made = True
    return context


def _hidden(password: Any) -> Any:
    from thalweg._config.secret import hidden, revealed

    return hidden(revealed(password))


def _for_openssl(secret: Any) -> Any:
    """Returns the password or the function in the form that the module ssl takes."""
    from thalweg._config.secret import revealed

    return (lambda: revealed(secret())) if callable(secret) else revealed(secret)
