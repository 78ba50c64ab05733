"""Consumer groups: both the members' side and the coordinator's side.

    consumer ── driver/ ──> classic/member.py, kip848/member.py     state machine of a member
                   ├──────> topics.py                               subscribed topics
                   ├──────> offsets.py, commit_future.py            committed offsets
                   └──────> listener.py                             rebalance listeners
    embedded broker ──────> groups.py ──> classic/group.py          state machine of a group
                                └───────> kip848/group.py           ... of KIP-848's protocol
    steps.py     events and actions of all machines; states.py: their states, as tables
    protocol.py, assignors/   messages of classic members; assignment of partitions

Members and groups are state machines without sockets, threads and clocks. Only `driver/` does I/O.
`thalweg.broker` runs the broker's side. Admin calls also use `offsets.py` and `protocol.py`.
"""
