"""Group coordination: what consumers and their group's coordinator ask and tell each other.

    consumer ── driver/ ──> classic/member.py, consumer/member.py   the member's state machine
                   ├──────> offsets.py, commit_future.py            committed offsets
                   └──────> listener.py                             changes, for the application
    embedded broker ──────> groups.py ──> classic/group.py          the group's state machine
                                └───────> consumer/group.py         ... of KIP-848's protocol
    steps.py     the words that all of them speak; states.py: their states, as tables
    protocol.py, assignors/   what members of classic groups say; who reads what

Members and groups are state machines without sockets, threads and clocks. `driver/` does the only
I/O; `thalweg._group_server` drives the broker's side. Admin calls use `offsets.py` and
`protocol.py` too.
"""
