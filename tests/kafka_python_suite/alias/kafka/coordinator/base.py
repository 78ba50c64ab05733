"""The states of a group member."""

from thalweg.structs import MemberState

__all__ = ["MemberState"]
