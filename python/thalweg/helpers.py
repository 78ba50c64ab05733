"""aiokafka's helper for TLS, for `from thalweg.helpers import create_ssl_context`."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from ssl import SSLContext

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
) -> "SSLContext":
    """Creates a context for the option `ssl_context`, as aiokafka's function of this name does.

    The context works for other libraries, too. A client of this package takes everything from it,
    also the certificate of the client, and what you change in it, such as `check_hostname` or
    `minimum_version`. It reads the files again when they change.

    Args:
        cafile: PEM file of the certificate authorities to trust. None: the system's.
        capath: Folder with PEM files of authorities, as `openssl rehash` prepares it.
        cadata: The authorities themselves: PEM text or certificates in DER.
        certfile: PEM file of the client's certificate and its chain.
        keyfile: PEM file of the client's private key, if it is not in `certfile`.
        password: Of the private key, or a function that returns it. OpenSSL needs it here, and the
            client each time that it reads the file.

    Raises:
        ValueError: If more than one of `cafile`, `capath` and `cadata` is given, because the client
            can take the authorities only from one place.
        OSError: If a file cannot be read, or has no certificate or key. This includes
            `ssl.SSLError`.
    """
    import ssl

    from thalweg._config.secret import hidden, revealed
    from thalweg._config.ssl_context import RememberingContext

    if sum(each is not None for each in (cafile, capath, cadata)) > 1:
        raise ValueError(
            "cafile, capath and cadata cannot be used together: put all certificates into one of"
            " them"
        )
    # No frame of an error has the password.
    secret = password if password is None or callable(password) else hidden(password)
    del password
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
        context.load_cert_chain(certfile, keyfile, revealed(secret))
        options["ssl_certfile"] = os.fsdecode(certfile)
    if keyfile is not None:
        options["ssl_keyfile"] = os.fsdecode(keyfile)
    if secret is not None:
        options["ssl_password"] = secret
    if authorities is not None:
        options["ssl_cafile"] = authorities
    return context
