"""Group coordination: what consumers and their group's coordinator ask and tell each other.

    consumer ── driver/ ──> member.py, consumer_member.py     the consumer's side of both protocols
                   ├──────> offsets.py, commit_future.py      committed offsets
                   └──────> listener.py                       changes, told to the application
    embedded broker ──────> groups.py ──> group.py            the broker's side, classic
                                └───────> consumer_group.py   ... and of KIP-848
    steps.py     the words that all of them speak            states.py   their states, as tables
    protocol.py, assignors/                                  what members say; who reads what

Members and groups are state machines without sockets, threads and clocks. `driver/` does the only
I/O; `thalweg._group_server` drives the broker's side. Admin calls use `offsets.py` and
`protocol.py` too.
"""
