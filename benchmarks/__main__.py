"""`python -m benchmarks`: find the benchmarks, run them one after another, print a table, write JSON.

Promises: a benchmark that raises does not stop the others, and makes the exit code 1; a missed bar is shown and counted
and leaves the exit code 0, because a figure depends on the machine and a test must not.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import re
import sys
import textwrap
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import ottla
from benchmarks.harness import Benchmark, Result, Unit, file_system, is_met, opened, real_disk

HERE = Path(__file__).parent
WIDTH = 120


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one benchmark: a result, or the error that it raised."""

    benchmark: Benchmark
    result: Result | None = None
    met: bool | None = None
    error: Exception | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments select and return the exit code."""
    options = _parser().parse_args(arguments)
    found, broken = discover(sorted(HERE.glob("bench_*.py")))
    chosen = [item for item in found if options.only is None or options.only.search(item.title)]
    if options.only is not None and not chosen and not broken:
        print(f"no benchmark matches {options.only.pattern!r}", file=sys.stderr)
        return 2
    outcomes = []
    for item in chosen:
        print(f"running {item.title}", file=sys.stderr, flush=True)
        outcomes.append(run(item, quick=options.quick))
    print("\n".join(report(outcomes)))
    # A quick run's figures mean nothing, so it never replaces the last real ones unasked.
    output = options.output or (None if options.quick else str(HERE / "results.json"))
    if output is not None:
        Path(output).write_text(json.dumps(document(outcomes, quick=options.quick), indent=2) + "\n", encoding="utf-8")
    return 1 if broken or any(outcome.error for outcome in outcomes) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Ottla, beside its rivals.")
    parser.add_argument("--only", type=_pattern, metavar="PATTERN", help="run those whose `area: name` matches")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that each works; judges no bar")
    parser.add_argument("--output", metavar="FILE", help="where to write JSON (default: benchmarks/results.json)")
    return parser


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from None


def discover(paths: Iterable[Path]) -> tuple[list[Benchmark], list[str]]:
    """The benchmarks of these modules in the order of their definition, and the modules that failed to import."""
    found: list[Benchmark] = []
    broken = []
    for path in paths:
        try:
            module = importlib.import_module(f"benchmarks.{path.stem}")
        except Exception:  # noqa: BLE001 - whatever it raises is told, and the other modules still run
            print(f"{path.name} cannot be imported:", file=sys.stderr)
            traceback.print_exc()
            broken.append(path.stem)
            continue
        found += [value for value in vars(module).values() if isinstance(value, Benchmark)]
    titles = [item.title for item in found]
    twice = sorted({title for title in titles if titles.count(title) > 1})
    if twice:
        raise ValueError(f"two benchmarks share a name: {', '.join(twice)}")
    return found, broken


def run(item: Benchmark, *, quick: bool) -> Outcome:
    """Run one benchmark; what it raises is printed and becomes the outcome."""
    try:
        with opened(quick=quick) as bench:
            result = item.run(bench)
        met = None if item.bar is None else is_met(item.bar, result)
    except Exception as error:  # noqa: BLE001 - a benchmark may fail in any way; the others run on
        traceback.print_exc()
        return Outcome(item, error=error)
    # A quick run checks that the bar and the result fit together, and judges nothing.
    return Outcome(item, result=result, met=None if quick else met)


HEADER = ("area", "benchmark", "ours", "theirs", "ratio", "better", "bar", "")
RIGHT = {2, 4}  # figures align at their end


def report(outcomes: Sequence[Outcome]) -> list[str]:
    """The table, what each row measured, and a summary, as lines of at most 120 columns."""
    rows = [HEADER, *(_row(outcome) for outcome in outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    # Names give way first, then rivals': the figures are what the table is for.
    for column, least in ((1, 24), (3, 16)):
        over = sum(widths) + 2 * (len(widths) - 1) - WIDTH
        widths[column] = max(min(widths[column], least), widths[column] - max(0, over))
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "-" * min(WIDTH, max(len(line) for line in lines)))
    lines += ["", *_footnotes(outcomes), "", _summary(outcomes)]
    return lines


def _row(outcome: Outcome) -> tuple[str, ...]:
    item, result = outcome.benchmark, outcome.result
    bar = "" if item.bar is None else str(item.bar)
    if result is None:
        return (item.area, item.name, "", "", "", "", bar, "ERROR")
    rival = result.rival
    theirs = "" if rival is None else f"{result.unit.format(rival.figure)} {rival.name}"
    ratio = "" if result.ratio is None else f"{result.ratio:.2f} x"
    better = "higher" if result.unit.higher_is_better else "lower"
    verdict = "" if outcome.met is None else "met" if outcome.met else "MISSED"
    return (item.area, item.name, result.unit.format(result.figure), theirs, ratio, better, bar, verdict)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = []
    for column, (text, width) in enumerate(zip(row, widths, strict=True)):
        text = text if len(text) <= width else text[: width - 1] + "…"
        cells.append(text.rjust(width) if column in RIGHT else text.ljust(width))
    return "  ".join(cells).rstrip()


def _footnotes(outcomes: Sequence[Outcome]) -> list[str]:
    lines = []
    for outcome in outcomes:
        text = f"{outcome.benchmark.title}: {outcome.benchmark.what}"
        if outcome.result is not None:
            text += "".join(f" [{words}]" for words in (outcome.result.note, outcome.result.no_rival) if words)
        if outcome.error is not None:
            text += f" [ERROR: {type(outcome.error).__name__}: {outcome.error}]"
        lines += textwrap.wrap(text, WIDTH, subsequent_indent="    ")
    return lines


def _summary(outcomes: Sequence[Outcome]) -> str:
    met = sum(outcome.met is True for outcome in outcomes)
    missed = sum(outcome.met is False for outcome in outcomes)
    failed = sum(outcome.error is not None for outcome in outcomes)
    return f"{len(outcomes)} benchmarks: {met} bars met, {missed} MISSED, {failed} failed"


def document(outcomes: Sequence[Outcome], *, quick: bool) -> dict[str, object]:
    """What is written as JSON: facts of the machine that bear on speed, none that name it, and every result."""
    return {"quick": quick, "machine": machine(), "results": [_entry(outcome) for outcome in outcomes]}


def _entry(outcome: Outcome) -> dict[str, object]:
    item, result = outcome.benchmark, outcome.result
    entry: dict[str, object] = {"area": item.area, "name": item.name, "what": item.what}
    entry["bar"] = None if item.bar is None else str(item.bar)
    entry["met"] = outcome.met
    if result is not None:
        entry |= {
            "ours": result.figure,
            "unit": _unit_name(result.unit),
            "better": "higher" if result.unit.higher_is_better else "lower",
            "rival": None if result.rival is None else result.rival.name,
            "theirs": None if result.rival is None else result.rival.figure,
            "ratio": result.ratio,
            "note": result.note,
            "no_rival": result.no_rival,
        }
    # The kind of error only: its text may hold a path, and the traceback has been printed.
    entry["error"] = None if outcome.error is None else type(outcome.error).__name__
    return entry


def _unit_name(unit: Unit) -> str:
    return unit.symbol or "count"


def machine() -> dict[str, object]:
    """What a figure depends on: interpreter, cores, processor, kernel, file system."""
    try:
        disk = file_system(real_disk())
    except OSError:
        disk = "memory"
    return {
        "ottla": ottla.__version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": _processor(),
        "kernel": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "file_system": disk,
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # not Linux
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return model[1].strip() if model else ""


if __name__ == "__main__":
    sys.exit(main())
