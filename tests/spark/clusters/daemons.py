"""Spark's own servers for tests, each in a JVM of its own: Connect, and a stand-alone cluster.

    with connect_server(folder, java) as url: ...             sc://127.0.0.1:<port>
    with standalone_cluster(folder, java, 2) as url: ...      spark://127.0.0.1:<port>

Every server listens on a free port of the loopback address, which its log names. A server is
stopped only by its own process ID.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.spark.programs import environment
from tests.support.spark_home import link_home, spark_home
from tests.support.waiting import wait_until

START_LIMIT_S = 120
STOP_LIMIT_S = 30
_LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1"}
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


@contextmanager
def daemon(
    name: str, folder: Path, command: list[str], env: Mapping[str, str], ready: str
) -> Iterator[re.Match[str]]:
    """Runs a server until the end of the block.

    Args:
        name: The name of its log.
        folder: The folder of its log, in which it runs.
        command: What to run. It must not start the server in the background.
        env: All variables of its environment.
        ready: The regular expression of the line that it logs when it is ready.

    Yields:
        The line that it has logged.
    """
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def lines() -> list[re.Match[str]]:
        text = log.read_text(encoding="utf-8", errors="replace")
        assert process.poll() is None, f"{name} has ended:\n{text[-5_000:]}"
        return list(re.finditer(ready, text))

    try:
        yield wait_until(lines, START_LIMIT_S, every=0.1, what=f"the start of {name}")[0]
    finally:
        process.terminate()
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def connect_server(
    folder: Path, java: Path, python: str, master: str = "local[2]"
) -> Iterator[str]:
    """Runs a Connect server.

    Args:
        folder: An empty folder for its files.
        java: The home of its Java.
        python: The interpreter of its workers.
        master: Where its tasks run: "local[2]", or executors with their own folders and JVMs.

    Yields:
        Its URL.
    """
    home = spark_home() if master.startswith("local[") else link_home(folder / "spark")
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.log.level": "INFO",
        "spark.executor.memory": "700m",
    }
    command = [str(home / "bin/spark-submit"), "--class", _CONNECT, "--master", master]
    command += ["--driver-memory", "1g"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    env = environment(java, SPARK_HOME=str(home), PYSPARK_PYTHON=python, **_LOOPBACK)
    ready = r"Spark Connect server started at: (127\.0\.0\.1:\d+)"
    with daemon("connect", folder, [*command, "spark-internal"], env, ready) as line:
        yield f"sc://{line[1]}"


@contextmanager
def standalone_cluster(
    folder: Path, java: Path, workers: int, *, several_hosts: bool = False
) -> Iterator[str]:
    """Runs a master, and workers of one core and 600 MB.

    Args:
        folder: An empty folder for its files. That of the executors is `work-<number of worker>`.
        java: The home of its Java.
        workers: The number of workers.
        several_hosts: Whether each worker has another address (127.0.0.1, 127.0.0.2, ...), which
            works on Linux. Spark starts speculative attempts only on another host.

    Yields:
        The URL of the master.
    """
    home = spark_home()
    run = str(home / "bin/spark-class")
    env = environment(java, SPARK_HOME=str(home), SPARK_DAEMON_MEMORY="256m", **_LOOPBACK)
    env["SPARK_DAEMON_JAVA_OPTS"] = env.pop("SPARK_SUBMIT_OPTS", "")
    address = ["--port", "0", "--webui-port", "0", "--host", "127.0.0.1"]
    with ExitStack() as running:
        ready = r"Starting Spark master at (spark://127\.0\.0\.1:\d+)"
        line = running.enter_context(daemon("master", folder, [run, _MASTER, *address], env, ready))
        for number in range(workers):
            own = ["--cores", "1", "--memory", "600m", "--work-dir", str(folder / f"work-{number}")]
            host = f"127.0.0.{1 + number if several_hosts else 1}"
            command = [run, _WORKER, *address[:-1], host, *own, line[1]]
            ready = "Successfully registered with master"
            running.enter_context(daemon(f"worker-{number}", folder, command, env, ready))
        yield line[1]
