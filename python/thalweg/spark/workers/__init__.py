"""What the source does in Spark's Python workers, on the driver and on the executors.

| module | what it does |
|---|---|
| files | finds the files that options name: certificates, keys, keytabs |
| task_memory | divides the memory of a task among the buffers of its client |
| garbage | excludes imported modules from garbage collection |
| logs | shows warnings of thalweg in the log of an executor, or of the driver |
"""

from thalweg.spark.workers.garbage import settle
from thalweg.spark.workers.logs import show_warnings

__all__ = ["settle"]

# Every worker that uses the source imports this package.
show_warnings()
