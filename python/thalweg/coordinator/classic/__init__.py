"""The classic protocol of groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The consumer's side:

    member.py         the state machine
    conversation.py   requests and their responses. requests.py: bodies
    rebalance.py      reasons to join again, order of callbacks
    ownership.py      owned partitions, and the callbacks for their changes
    leader.py         the work of the leader. assigning.py calls the assignors
    verdict.py        meaning of error codes. refusal.py: texts of refused joins

The broker's side:

    group.py          the state machine
    roster.py         its members and their vote
    rules.py          refusals
    responses.py      bodies of responses, the view
"""
