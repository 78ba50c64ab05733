"""Conveniences around Spark's own API. Everything works without them.

| module | contains |
|---|---|
| `cluster.py` | `kafka`: reads and writes of one cluster, whose options are given once |
| `progress.py` | `ProgressListener`: the lag and the rates of streams |
"""
