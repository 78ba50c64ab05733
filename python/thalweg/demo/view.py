"""The output of the demo: a progress bar, tables in the terminal, a chart as PNG."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

if TYPE_CHECKING:
    from thalweg.demo import Report

_ROWS_SHOWN = 12


class View:
    """Prints to the terminal, or plain lines if the output is not a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        """Writes to standard output unless another console is given."""
        self._console = console or Console()

    def note(self, text: str) -> None:
        """Prints one line."""
        self._console.print(text, highlight=False)

    def failed(self, text: str) -> None:
        """Prints why the demo ended early."""
        self._console.print(f"[bold red]The demo failed:[/] {text}", highlight=False)

    @contextlib.contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Shows a progress bar, and yields the function that advances it."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console) as bar:
            task = bar.add_task(what, total=total)
            yield lambda count: bar.advance(task, count)

    @contextlib.contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Shows what runs and for how long. Afterwards the time stays on the screen."""
        columns = (
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console) as bar:
            task = bar.add_task(what, total=1)
            yield
            bar.advance(task)

    def show(self, report: Report) -> None:
        """Prints the longest delays, and the rate of each stage."""
        worst = Table(title="Longest mean departure delays by carrier and hour")
        for name in ("carrier", "hour", "flights", "minutes"):
            worst.add_column(name, justify="left" if name == "carrier" else "right")
        known = [row for row in report.delays if row["mean_delay"] is not None]
        for row in sorted(known, key=lambda r: -r["mean_delay"])[:_ROWS_SHOWN]:
            worst.add_row(
                row["carrier"],
                f"{row['hour']:02d}:00",
                f"{row['flights']:,}",
                f"{row['mean_delay']:.1f}",
            )
        rates = Table(title="Stages")
        for name in ("stage", "rows", "seconds", "rows/s"):
            rates.add_column(name, justify="left" if name == "stage" else "right")
        for stage in report.stages:
            seconds = f"{stage.seconds:.2f}"
            if stage.rows:
                rate = f"{stage.rows / stage.seconds:,.0f}"
                rates.add_row(stage.name, f"{stage.rows:,}", seconds, rate)
            else:
                rates.add_row(stage.name, "", seconds, "")
        self._console.print(worst)
        self._console.print(rates)
        total = sum(row["flights"] for row in report.delays)
        self.note(f"The result has all {total:,} flights, in {len(report.delays)} groups.")
        if report.stream is not None:
            stream = report.stream
            groups = f"{len(stream.days):,} groups of carrier and day"
            self.note(f"The stream has the same flights, in {groups}.")
            self.note(
                f"It has written {stream.written:,} rows in {stream.batches} micro-batches"
                f" ({stream.guarantee}). A read_committed reader sees {stream.committed:,} rows."
            )


def write_chart(report: Report, path: Path) -> Path:
    """Draws mean delay by carrier and hour as a heat map.

    Args:
        report: The results of the demo.
        path: The PNG file to write. Its folder is created if it is missing.

    Returns:
        The absolute path.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    carriers = sorted({row["carrier"] for row in report.delays})
    hours = sorted({row["hour"] for row in report.delays})
    grid = [[float("nan")] * len(hours) for _ in carriers]
    for row in report.delays:
        if row["mean_delay"] is not None:
            grid[carriers.index(row["carrier"])][hours.index(row["hour"])] = row["mean_delay"]
    figure, axes = plt.subplots(figsize=(10, 6))
    image = axes.imshow(grid, aspect="auto", cmap="viridis", vmax=60)
    axes.set_xticks(range(len(hours)), [f"{hour:02d}" for hour in hours])
    axes.set_yticks(range(len(carriers)), carriers)
    axes.set_xlabel("scheduled hour of departure")
    axes.set_ylabel("carrier")
    axes.set_title("Mean departure delay, New York City, 2013")
    figure.colorbar(image, label="minutes (60 or more in one colour)")
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
    return path
