"""The group protocol of KIP-848: one request, ConsumerGroupHeartbeat. The broker assigns.

The consumer's side:

    member.py         the state machine
    reports.py        full heartbeats, sent until they get a response
    heartbeats.py     bodies, meaning of error codes

The broker's side:

    group.py          the state machine
    requests.py, admission.py    refusals
    patterns.py       patterns of topics
    roster.py         the members
    reconciliation.py moves a member one step to its target
    responses.py      bodies of responses, the view

Both sides use topic_ids.py: partitions by topic id.
"""
