"""The classic protocol of groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

the consumer's side    member.py: the state machine
conversation.py  what it has sent, and what came of it; requests.py: bodies
rebalance.py  why it joins again, and when the application is told what
ownership.py  its partitions, and what the application is told
leader.py     what it does if it leads; assigning.py calls the assignors
verdict.py    what error codes mean
the broker's side      group.py: the state machine
roster.py     its members and their vote
rules.py      who is refused; answers.py: bodies of answers, the view
"""
