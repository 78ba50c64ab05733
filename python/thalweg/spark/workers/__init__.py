"""What the source does in Spark's Python workers, on the driver and on the executors.

| module | what it does |
|---|---|
| files | finds the files that options name: certificates, keys, keytabs |
| task_memory | divides the memory of a task among the buffers of its client |
| garbage | excludes imported modules from garbage collection |
"""

from thalweg.spark.workers.garbage import settle

__all__ = ["settle"]
