"""Formats the storage of Kafka's nodes. Kafka's own tool does it once for each version.

The tool needs a JVM, which costs more than a second for each node. What it writes differs between
nodes only in `meta.properties`:

    data-0/bootstrap.checkpoint   the versions of the cluster's features
    data-0/meta.properties        the IDs of the cluster, the node and the folder
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from tests.support import java
from tests.support.builds import Builds, digest
from tests.support.paths import CACHE

META = "meta.properties"
# The tool checks the options of a complete node.
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
"""


def new_id() -> str:
    """Returns a random ID in Kafka's form. A leading dash would look like an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def format_storage(version: str, cluster_id: str, node_id: int, folders: Sequence[Path]) -> None:
    """Formats the folders of a new node. The first one also has the cluster's metadata.

    Raises:
        RuntimeError: Kafka's tool failed. The message contains its output.
    """
    template = _template(version)
    for number, folder in enumerate(folders):
        if number == 0:
            shutil.copytree(template, folder, ignore=shutil.ignore_patterns(META))
        else:
            folder.mkdir(parents=True)
        ids = {"version": 1, "cluster.id": cluster_id, "node.id": node_id, "directory.id": new_id()}
        lines = [f"{name}={value}\n" for name, value in ids.items()]
        (folder / META).write_text("".join(lines), encoding="utf-8")


def _template(version: str) -> Path:
    """Returns a folder that Kafka's tool has formatted."""
    jars = sorted(path.name for path in java.kafka_libs(version).iterdir())
    made_from = [("jars", "\n".join(jars).encode()), ("properties", _PROPERTIES.encode())]

    def build(folder: Path) -> None:
        data = folder / "data"
        properties = folder / "server.properties"
        properties.write_text(f"{_PROPERTIES}log.dirs={data}\n", encoding="utf-8")
        arguments = "format", "-t", new_id(), "-c", str(properties)
        command = java.command("kafka.tools.StorageTool", *arguments, version=version)
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode or not (data / META).exists():
            raise RuntimeError(f"kafka {version}: no storage\n{ran.stdout}\n{ran.stderr}")

    storage = Builds(CACHE / "kafka-storage")
    return storage.get(f"kafka-{version}", digest(made_from), build) / "data"
