"""Group coordination: what a consumer and its group's coordinator ask and tell each other.

    consumer ── driver.py ──> offsets.py         bodies and answers of OffsetCommit, OffsetFetch
                    ├───────> commit_future.py   the outcome of an asynchronous commit
                    └───────> listener.py        changes of partitions, told to the application
    protocol.py                                  what members send each other
    assignors/                                   who gets which partition

`driver.py` does the only I/O, the rest is pure: subscribing without a group, committed offsets,
auto-commit. Admin calls use `offsets.py` and `protocol.py` too.

What is deliberately absent: membership (joining, heartbeats, rebalances), which follows.
"""
