"""A Spark home with which the sessions of tests need two thirds of the time.

Spark's Python processes import PySpark from `python/lib/pyspark.zip` of Spark's home. That archive
has no bytecode, so each process compiles PySpark: half a second of CPU, for each query that is
planned and each stream that starts. A home without the archive makes them import the installed
package. It contains the same files.
"""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

from tests.support import java
from tests.support.builds import Builds, digest
from tests.support.paths import CACHE

# `python` has the archive. Spark writes into the other two.
_LEFT_OUT = ("python", "work", "logs")


def link_home(home: Path) -> Path:
    """Makes a Spark home with the files of the installed PySpark, and returns it."""
    home.mkdir(exist_ok=True)
    for each in _installed().iterdir():
        if each.name not in _LEFT_OUT:
            (home / each.name).symlink_to(each)
    return home


def spark_home() -> Path:
    """Returns the Spark home of sessions that write nothing into it."""
    version = distribution("pyspark").version
    made_for = digest([(str(_installed()), version.encode())])
    return Builds(CACHE / "spark-classes").get("home", made_for, link_home)


def class_archive() -> Path:
    """Returns the path of the archive of Spark's classes for that home. It may not exist."""
    return CACHE / "spark-classes" / f"{java.digest(str(spark_home()))}.jsa"


def quick_start() -> dict[str, str]:
    """Returns the variables of the environment of a session that lives for seconds or minutes."""
    return {
        "SPARK_HOME": str(spark_home()),
        "SPARK_SUBMIT_OPTS": " ".join(java.with_archive(class_archive())),
    }


def _installed() -> Path:
    return Path(str(distribution("pyspark").locate_file("pyspark")))
