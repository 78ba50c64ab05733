"""Names of `thalweg` under the module path that kafka-python has for them."""

from thalweg._version import __version__

__all__ = ["__version__"]
