"""TLS for the identity provider, by the authority of the tests."""

from __future__ import annotations

import base64
import ssl
import tempfile
from pathlib import Path

from tests.support import java
from tests.support.kafka.certificates import PASSWORD, make_certificates
from tests.support.paths import CACHE


def certificates() -> Path:
    """Returns the folder with the authority: `ca.pem`, `other-ca.pem`."""
    return make_certificates(CACHE)


def server_context(name: str = "server") -> ssl.SSLContext:
    """Returns the settings of a server: "server", "expired" or "wrong-host"."""
    folder = certificates()
    der = java.run(
        "ExportKey",
        str(folder / f"{name}.p12"),
        PASSWORD,
        name,
        classes=java.compiled("ExportKey"),
    )
    key = base64.encodebytes(bytes.fromhex(der.strip())).decode()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as where:
        pem = Path(where, "server.pem")
        text = (folder / f"{name}.crt").read_text(encoding="ascii")
        pem.write_text(f"-----BEGIN PRIVATE KEY-----\n{key}-----END PRIVATE KEY-----\n{text}")
        context.load_cert_chain(pem)
    return context
