"""`core_options`: the options for the native core, without blocking the event loop."""

import asyncio
import functools
from typing import Any

from thalweg import _core
from thalweg.config import Config

__all__ = ["core_options"]


async def core_options(config: Config, loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    """Returns `config.core(loop)`, with all that takes time done in another thread.

    It may ask the name service, and import botocore or load the Kerberos library. It may also read
    certificates and keys, and derive keys from passwords for seconds.

    Args:
        config: The options of a client.
        loop: Its event loop.

    Raises:
        KafkaConfigurationError: If certificates, keys or Kerberos cannot be used.
    """
    make = functools.partial(config.core, loop)
    core = await asyncio.to_thread(make) if config.takes_time else make()
    if config["security_protocol"].endswith("SSL"):
        core["tls"] = await asyncio.to_thread(_core.PreparedTls, core)
    if core["sasl_mechanism"] == "GSSAPI":
        await asyncio.to_thread(_core.check_kerberos, core)
    return core
