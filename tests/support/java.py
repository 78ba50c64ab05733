"""Finds Java and Kafka's jars for tests, and runs Java programs.

`tools/doctor` chooses the Java, so make targets and tests use the same one.
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.support.builds import Builds
from tests.support.paths import CACHE, ROOT, made

SOURCES = ROOT / "tests" / "support" / "java"

# Most JVMs of tests live for seconds. Without the optimising compiler and the threads of a parallel
# collector they start in 60% of the time. Benchmarks do not use these options.
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@functools.cache
def java_home() -> Path:
    """Returns the home of the JDK that the doctor chose."""
    doctor = ROOT / "tools" / "doctor"
    result = subprocess.run(
        ["sh", str(doctor), "--print", "java"], capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise FileNotFoundError(f"no Java 17 or newer: run `sh {doctor} test`\n{result.stderr}")
    return Path(result.stdout.strip()).resolve().parents[1]


def tool(name: str) -> str:
    """Returns the path of `java`, `javac` or `keytool`."""
    return str(java_home() / "bin" / name)


def kafka_libs(version: str = "4.3") -> Path:
    """Returns the folder with the jars of a Kafka version, "4.3" or "3.9"."""
    return made(CACHE / f"kafka-{version}" / "libs", "kafka")


@functools.cache
def class_path(version: str = "4.3") -> str:
    """Returns the class path with all jars of a Kafka version, in a fixed order."""
    return os.pathsep.join(sorted(map(str, kafka_libs(version).glob("*.jar"))))


def class_archive(version: str = "4.3") -> Path:
    """Returns the path of the archive of a Kafka version's classes. It may not exist.

    The archive has classes in the form in which this JVM keeps them in memory. A JVM that starts
    with it does not read and verify them again. tests/support/kafka/class_archives.py makes it.
    """
    return CACHE / f"kafka-{version}" / f"classes-{digest(class_path(version))}.jsa"


def digest(class_path: str) -> str:
    """Returns a digest of this JVM and a class path. A JVM refuses the archive of others."""
    jvm = (java_home() / "lib" / "modules").stat()
    made_for = f"{jvm.st_size} {jvm.st_mtime_ns} {class_path}"
    return hashlib.sha256(made_for.encode()).hexdigest()[:16]


@functools.cache
def quick_start(version: str = "4.3") -> tuple[str, ...]:
    """Returns JVM options for a program with Kafka's jars that lives for seconds."""
    return with_archive(class_archive(version))


def with_archive(archive: Path) -> tuple[str, ...]:
    """Returns JVM options for a program that lives for seconds, with an archive of classes."""
    if not archive.exists():
        return SHORT_LIVED
    # If the archive does not fit, the JVM warns and works without it. Its warnings would be in the
    # output of programs, which tests read.
    warnings = "-Xlog:disable", "-Xlog:all=error:stderr"
    return (*SHORT_LIVED, f"-XX:SharedArchiveFile={archive}", *warnings)


def log_options(version: str = "4.3") -> list[str]:
    """Returns JVM options that send Kafka's log to stdout. 4.x uses log4j2, 3.9 uses reload4j."""
    folder = ROOT / "tools" / "kafka"
    if version.startswith("3."):
        return [f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}"]
    return [f"-Dlog4j2.configurationFile=file:{folder / 'log4j2.properties'}"]


def late_brokers() -> list[str]:
    """Returns the JVM options that make a broker apply changes late, or none.

    `THALWEG_TEST_LATE_BROKERS=1` requests them. See `tests.support.kafka.late`.
    """
    if os.environ.get("THALWEG_TEST_LATE_BROKERS", "") in ("", "0"):
        return []
    (jar,) = made(CACHE / "byteman" / "libs", "late-brokers").glob("byteman-*.jar")
    return [f"-javaagent:{jar}=script:{ROOT / 'tools' / 'kafka' / 'late.btm'}"]


def compiled(source: str, version: str = "4.3", *, jars: str | None = None) -> Path:
    """Returns the classes of `tests/support/java/<source>.java`, compiled once per content.

    The source needs Kafka's jars, or those of the class path `jars`.
    """
    path = SOURCES / f"{source}.java"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]

    def build(folder: Path) -> None:
        needed = jars or class_path(version)
        command = [tool("javac"), "-Xlint:all", "-cp", needed, "-d", str(folder), str(path)]
        subprocess.run(command, check=True)

    # Several processes run tests at once: none may load a class that another is still writing.
    return Builds(CACHE / "java-classes").get(f"{source}-{version}", digest, build)


def command(
    main_class: str,
    *arguments: str,
    version: str = "4.3",
    classes: Path | None = None,
    jars: Iterable[Path] = (),
    heap: str = "256m",
    jvm_options: Sequence[str] | None = None,
) -> list[str]:
    """Returns the command line that runs a class with Kafka's jars, other classes and other jars.

    By default the JVM has the options for programs that live for seconds (`quick_start`).
    """
    # Kafka's jars come first: the archive of their classes is for a class path that begins so.
    more = [str(each) for each in (classes, *jars) if each is not None]
    path = os.pathsep.join([class_path(version), *more])
    return [
        tool("java"),
        f"-Xmx{heap}",
        *(quick_start(version) if jvm_options is None else jvm_options),
        *log_options(version),
        "-Dthalweg.kafka.log.level=ERROR",
        "-cp",
        path,
        main_class,
        *arguments,
    ]


def run(
    main_class: str,
    *arguments: str,
    version: str = "4.3",
    classes: Path | None = None,
    jars: Iterable[Path] = (),
    environment: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout: float = 300,
) -> str:
    """Runs a class and returns what it printed.

    Raises:
        RuntimeError: it failed. The message contains everything that it printed.
    """
    result = subprocess.run(
        command(main_class, *arguments, version=version, classes=classes, jars=jars),
        input=stdin,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if result.returncode:
        raise RuntimeError(
            f"{main_class} exited with {result.returncode}:\n{result.stdout}\n{result.stderr}"
        )
    return result.stdout
