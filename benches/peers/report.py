"""Prints and saves a case's runs as a table, as JSON and as a chart.

Ratios are medians of the ratios within a round. Latencies of all rounds are pooled.
"""

from __future__ import annotations

import json
import platform
import statistics
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benches.peers.equal import Written
from benches.peers.runner import Run
from benches.peers.settings import BASELINE, Case, Entrant

PERCENTS = {"p50_ms": 50, "p99_ms": 99}


@dataclass
class Results:
    """All runs of a case: a list for each entrant, with a run for each round."""

    case: Case
    runs: dict[Entrant, list[Run]] = field(default_factory=dict)
    written: dict[Entrant, Written] = field(default_factory=dict)
    failures: dict[Entrant, str] = field(default_factory=dict)

    def median(self, entrant: Entrant, what: str) -> float | None:
        values = [_value(run, what) for run in self.runs[entrant]]
        known = [value for value in values if value is not None]
        return statistics.median(known) if known else None

    def ratio(self, entrant: Entrant, what: str = "rate") -> float | None:
        """Returns the ratio to the baseline, round by round. Only for the rate is more better."""
        pairs = zip(self.runs[entrant], self.runs.get(self._base(entrant), ()), strict=False)
        ratios = [(_value(a, what), _value(b, what)) for a, b in pairs]
        known = [a / b for a, b in ratios if a and b]
        return statistics.median(known) if known else None

    def _base(self, entrant: Entrant) -> Entrant:
        """Returns what an entrant is compared with."""
        same = (each for each in self.runs if each.python and replace(each, python="") == entrant)
        return next(same, BASELINE)

    def pooled(self, entrant: Entrant, name: str) -> float | None:
        """Returns a percentile of the latencies of all rounds together."""
        samples = sorted(each for run in self.runs.get(entrant, ()) for each in run.samples_us)
        return samples[len(samples) * PERCENTS[name] // 100] / 1000 if samples else None

    def latency(self, entrant: Entrant, name: str) -> tuple[float | None, float | None]:
        """Returns milliseconds, and the ratio to the baseline's."""
        if name not in PERCENTS:
            return self.median(entrant, name), self.ratio(entrant, name)
        found, base = self.pooled(entrant, name), self.pooled(self._base(entrant), name)
        return found, found / base if found and base else None

    def as_dict(self) -> dict[str, Any]:
        return {
            "case": self.case.__dict__,
            "entrants": {
                entrant.name: {
                    "rate": self.median(entrant, "rate"),
                    "rates": [run.rate for run in runs],
                    "cpu_us_per_record": self.median(entrant, "cpu_us"),
                    "peak_rss_bytes": self.median(entrant, "rss_bytes"),
                    "compared_with": self._base(entrant).name,
                    "ratio": self.ratio(entrant),
                    "written": self.written[entrant].__dict__ if entrant in self.written else None,
                    "pooled": {name: self.pooled(entrant, name) for name in PERCENTS},
                    "more": [run.more for run in runs],
                }
                for entrant, runs in self.runs.items()
            },
            "failures": {entrant.name: text for entrant, text in self.failures.items()},
        }


def _value(run: Run, what: str) -> float | None:
    found = getattr(run, what) if hasattr(run, what) else run.more.get(what)
    return None if found is None else float(found)


def table(results: Results) -> str:
    """Returns the case's table, with the columns of its role."""
    case = results.case
    columns = {
        "latency": ("p50_ms", "p99_ms"),
        "end_to_end": ("p50_ms", "p99_ms"),
        "start": ("import_ms", "first_ms"),
    }.get(case.role)
    lines = [
        f"{case.name}: {case.records:,} records, {len(next(iter(results.runs.values())))} rounds"
    ]
    if columns:
        lines.append(f"  {'':24}" + "".join(f"{name:>12}{'ratio':>8}" for name in columns))
        for entrant in results.runs:
            cells = [
                f"{_number(found, '.2f'):>12}{_number(ratio, '.2f'):>8}"
                for found, ratio in (results.latency(entrant, name) for name in columns)
            ]
            lines.append(f"  {entrant.name:24}" + "".join(cells))
    else:
        head = "rec/s", "MB/s", "CPU us/rec", "RSS MB", "wire B/rec", "rec/batch", "ratio"
        lines.append(f"  {'':24}" + "".join(f"{name:>12}" for name in head))
        lines += [_throughput_line(results, entrant) for entrant in results.runs]
    lines += [f"  {entrant.name:24}  FAILED: {text}" for entrant, text in results.failures.items()]
    return "\n".join(lines)


def secured_table(all_results: list[Results]) -> str:
    """Returns the ratios of each client to itself without encryption. Empty without such cases.

    Latencies are in ms, as differences: encryption adds time, whatever the client needs otherwise.
    """
    plain = {each.case.name: each for each in all_results if each.case.security == "PLAINTEXT"}
    lines = []
    for results in all_results:
        base = plain.get(replace(results.case, security="PLAINTEXT").name)
        if results.case.security == "PLAINTEXT" or base is None:
            continue
        lines.append(f"{results.case.name}, compared with the same client without encryption")
        both = [each for each in results.runs if each in base.runs]
        lines += [f"  {each.name:24}" + _added(results, base, each) for each in both]
    return "\n".join(lines)


def _added(results: Results, base: Results, entrant: Entrant) -> str:
    if results.case.role in ("produce", "consume"):
        rates = results.median(entrant, "rate"), base.median(entrant, "rate")
        cpu = results.median(entrant, "cpu_us"), base.median(entrant, "cpu_us")
        return f"  rate x {_ratio(*rates)}, CPU {_difference(*cpu)} us/record"
    names = ("first_ms",) if results.case.role == "start" else tuple(PERCENTS)
    found = {
        name: (results.latency(entrant, name)[0], base.latency(entrant, name)[0]) for name in names
    }
    return "".join(f"  {name} {_difference(*pair)}" for name, pair in found.items())


def _ratio(value: float | None, base: float | None) -> str:
    return _number(value / base if value and base else None, ".2f")


def _difference(value: float | None, base: float | None) -> str:
    return _number(None if value is None or base is None else value - base, "+.2f")


def _throughput_line(results: Results, entrant: Entrant) -> str:
    rate = results.median(entrant, "rate") or 0.0
    written = results.written.get(entrant)
    cells = (
        _number(rate, ",.0f"),
        _number(rate * results.case.size / 1e6, ",.1f"),
        _number(results.median(entrant, "cpu_us"), ".2f"),
        _number((results.median(entrant, "rss_bytes") or 0) / 1e6, ",.0f"),
        _number(written.bytes_per_record if written else None, ".1f"),
        _number(written.records_per_batch if written else None, ",.0f"),
        _number(results.ratio(entrant), ".2f"),
    )
    return f"  {entrant.name:24}" + "".join(f"{cell:>12}" for cell in cells)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def write_json(path: Path, all_results: list[Results]) -> None:
    found = {
        "machine": {
            "cpu": platform.processor() or platform.machine(),
            "system": platform.platform(),
        },
        "cases": [results.as_dict() for results in all_results],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1), encoding="utf-8")


def write_chart(path: Path, all_results: list[Results]) -> None:
    """Draws a bar for each entrant of each throughput case."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    shown = [each for each in all_results if each.case.role in ("produce", "consume") and each.runs]
    if not shown:
        return
    figure, axes = plt.subplots(
        len(shown), 1, figsize=(9, 2.6 * len(shown)), squeeze=False, layout="constrained"
    )
    for axis, results in zip(axes[:, 0], shown, strict=True):
        names = [entrant.name for entrant in results.runs][::-1]
        rates = [(results.median(entrant, "rate") or 0) / 1e6 for entrant in results.runs][::-1]
        colours = [
            "#1f6feb"
            if name.startswith("thalweg")
            else "#c9d1d9"
            if name.startswith("ceiling")
            else "#8b949e"
            for name in names
        ]
        bars = axis.barh(names, rates, color=colours)
        axis.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
        axis.set_title(f"{results.case.name}: million records/s", fontsize=10, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
    plt.close(figure)
