"""What Ottla costs, measured: `python -m benchmarks` runs every `bench_*.py` beside this file. See README.md."""

from benchmarks.harness import (
    AtLeast,
    AtMost,
    Bench,
    Benchmark,
    Comparison,
    Result,
    Rival,
    Timing,
    Unit,
    benchmark,
)

__all__ = [
    "benchmark",
    "Bench",
    "Benchmark",
    "Result",
    "Rival",
    "Unit",
    "AtLeast",
    "AtMost",
    "Timing",
    "Comparison",
]
