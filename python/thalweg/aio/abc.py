"""Base classes under aiokafka's names, for `from thalweg.aio.abc import ...`."""

from abc import ABC, abstractmethod

from thalweg.coordinator.listener import ConsumerRebalanceListener

__all__ = ["AbstractTokenProvider", "ConsumerRebalanceListener"]


class AbstractTokenProvider(ABC):
    """Gives bearer tokens for OAUTHBEARER, which this version does not offer.

    The class is here so that a module that defines a provider can be imported. The option
    `sasl_oauth_token_provider` refuses an instance.
    """

    @abstractmethod
    async def token(self) -> str:
        """Returns a token that has not expired."""

    def extensions(self) -> dict[str, str]:
        """Returns the extensions of the token by name (KIP-342)."""
        return {}
