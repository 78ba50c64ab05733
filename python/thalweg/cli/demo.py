"""`thalweg demo` runs thalweg.demo."""

import argparse

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the demo's own options."""
    from thalweg import demo

    demo.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the demo."""
    from thalweg import demo

    return demo.run(arguments)
