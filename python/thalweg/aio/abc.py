"""Base classes under aiokafka's names, for `from thalweg.aio.abc import ...`."""

from abc import ABC, abstractmethod

from thalweg.coordinator.listener import ConsumerRebalanceListener

__all__ = ["AbstractTokenProvider", "ConsumerRebalanceListener"]


class AbstractTokenProvider(ABC):
    """Supplies bearer tokens for OAUTHBEARER: a value of the option `sasl_oauth_token_provider`.

    A provider need not inherit from this class.
    """

    @abstractmethod
    async def token(self) -> str:
        """Returns a token that has not expired."""

    def extensions(self) -> dict[str, str]:
        """Returns names and values for the broker (KIP-342)."""
        return {}
