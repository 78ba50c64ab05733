"""Interruptions: a Ctrl-C, or another signal handler that raises, in the driver's work.

    with interruptions:  ── raises ──> is_broken ── next poll ──> the driver joins the group again
        pop an event, step, act

A signal handler may raise between any two instructions. An event that was taken from its queue is
then lost, and the member would wait for it for ever.
"""

from types import TracebackType

from thalweg.errors import KafkaError

__all__ = ["Interruptions"]


class Interruptions:
    """Notes whether something raised within its `with` blocks, which may be nested.

    Attributes:
        is_broken: Whether an event may be lost.
        harmless: An exception that loses nothing: a listener raised it.
    """

    def __init__(self) -> None:
        self.is_broken = False
        self.harmless: BaseException | None = None

    def __enter__(self) -> None:
        """Begins something that must not be interrupted."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The driver raises a KafkaError only after it has handled the event.
        if error is not None and error is not self.harmless and not isinstance(error, KafkaError):
            self.is_broken = True
        self.harmless = None  # it would keep the variables of the listener alive
