"""The protocol of KIP-848: one request, ConsumerGroupHeartbeat; the broker assigns.

the consumer's side    member.py: the state machine
reports.py    full heartbeats, sent until they are answered
heartbeats.py their bodies, and what error codes mean
the broker's side      group.py: the state machine
requests.py, admission.py  who is refused, and why
roster.py          the members
reconciliation.py  a member one step nearer to its target
answers.py         bodies of answers, the view
both                   topic_ids.py: partitions by topic id
"""
