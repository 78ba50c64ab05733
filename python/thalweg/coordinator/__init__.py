"""Group coordination: both sides of Kafka's groups, as pure state machines.

What exists so far: the requests for committed offsets (`offsets.py`). The member's and the
group's machines follow.
"""
