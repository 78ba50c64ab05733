"""A member's states."""

from thalweg.structs import MemberState

__all__ = ["MemberState"]
