"""The version of the distribution, the same in Cargo.toml."""

__version__ = "0.1.0"
