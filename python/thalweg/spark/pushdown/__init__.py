"""Filter push-down: a batch read skips what the filters of a query exclude.

| module | |
|---|---|
| filters | translates Spark's filters into partitions, offsets and a time |
| reader | the batch reader that gets the filters, with the option `pushFilters` |
"""
