"""Spark data source: Kafka topics as DataFrames, batch and stream, read and write, without a jar.

If thalweg is installed in the Python of Spark's driver and workers, ``.format("thalweg")`` works
without any call. :func:`register` does the same for one session, and checks that the workers can
import thalweg. :func:`kafka` returns an object that reads and writes the topics of a cluster, whose
options are given once. :class:`ProgressListener` reports the lag of streams. Importing this package
loads no native code; the first read or write does.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from thalweg.spark.helpers.cluster import Kafka, kafka
    from thalweg.spark.helpers.progress import Progress, ProgressListener

__all__ = ["Kafka", "Progress", "ProgressListener", "kafka", "register"]

# Imported at their first use: the workers of Spark import this package, too, and need none of them.
_HELPERS = {
    "Kafka": "thalweg.spark.helpers.cluster",
    "Progress": "thalweg.spark.helpers.progress",
    "ProgressListener": "thalweg.spark.helpers.progress",
    "kafka": "thalweg.spark.helpers.cluster",
}


def __getattr__(name: str) -> Any:
    if name in _HELPERS:
        return getattr(importlib.import_module(_HELPERS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register(spark: SparkSession, *, check_workers: bool = True) -> None:
    """Registers the source under the name ``thalweg`` in a session.

    Args:
        spark: A classic or Connect session.
        check_workers: Whether to run a job with one row that imports thalweg in a worker. It takes
            a few hundred milliseconds, once. Without it, a missing thalweg makes tasks fail later.

    Raises:
        ImportError: If the workers' Python cannot import thalweg, or has another version of it. The
            message names the interpreter.
    """
    from thalweg.spark.source import ThalwegDataSource

    if check_workers:
        _check_workers(spark)
    try:
        spark.dataSource.register(ThalwegDataSource)
    except Exception as error:
        # PySpark 4.0 refuses the name of a source that it has found itself. It has found this one.
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise


def _check_workers(spark: SparkSession) -> None:
    import thalweg

    # A nested function is pickled by value, so it also runs on a worker without thalweg.
    def probe(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        import sys

        import pyarrow as pa

        for _ in batches:
            pass
        version, error = "", ""
        try:
            import thalweg
            from thalweg import _core  # noqa: F401

            version = thalweg.__version__
        except Exception as caught:
            error = f"{type(caught).__name__}: {caught}"
        yield pa.RecordBatch.from_pydict(
            {"interpreter": [sys.executable], "version": [version], "error": [error]}
        )

    schema = "interpreter string, version string, error string"
    try:
        row = spark.range(1).coalesce(1).mapInArrow(probe, schema).collect()[0]
    except Exception as error:
        # The worker could not load Spark's own Python code, for example because pyarrow is missing.
        missing = re.search(r"(ModuleNotFoundError|ImportError): .*", str(error))
        if missing is None:
            raise
        raise ImportError(
            f"Spark's workers run {_interpreter(spark)}, which cannot run Spark's Arrow functions "
            f"({missing[0]}). Install thalweg[spark] there, or set PYSPARK_PYTHON (or "
            "spark.pyspark.python) to a Python that has it."
        ) from error
    if row.error:
        raise ImportError(
            f"Spark's workers run {row.interpreter}, which cannot import thalweg ({row.error}). "
            "Install thalweg there, or set PYSPARK_PYTHON (or spark.pyspark.python) to a Python "
            "that has it."
        )
    if row.version != thalweg.__version__:
        raise ImportError(
            f"Spark's workers run {row.interpreter} with thalweg {row.version}, the driver has "
            f"{thalweg.__version__}. Install the same version on both."
        )


def _interpreter(spark: SparkSession) -> str:
    """Returns the interpreter that Spark starts for its workers, as far as the driver can tell."""
    configured = spark.conf.get("spark.pyspark.python", None) or os.environ.get("PYSPARK_PYTHON")
    return configured or shutil.which("python3") or "python3"
