"""What Spark reports of a micro-batch, as the figures a person asks for: records, rates, lag, time.

Nothing here imports Spark: a report is the JSON it writes. Called by `runner`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch."""

    id: int
    records: int
    in_per_s: float
    out_per_s: float
    lag: int | None
    """Records that are in the source and not yet through; None where the source cannot tell."""
    took_ms: int
    bad: int | None = None
    sink: str | None = None
    """Of several: the one that wrote it."""
    slot_lag_bytes: int | None = None
    """How much of a database's log its replication slot holds back; None without one."""

    @property
    def line(self) -> str:
        """`batch 12 | 1,000 records | in 5,230/s | out 6,100/s | lag 120 | 190 ms`."""
        parts = [
            f"batch {self.id}" if self.sink is None else f"{self.sink}: batch {self.id}",
            f"{self.records:,} records",
        ]
        if self.bad:
            parts.append(f"{self.bad:,} bad")
        parts += [f"in {self.in_per_s:,.0f}/s", f"out {self.out_per_s:,.0f}/s"]
        if self.lag is not None:
            parts.append(f"lag {self.lag:,}")
        if self.slot_lag_bytes is not None:
            parts.append(f"slot lag {self.slot_lag_bytes / 1e6:,.1f} MB")
        return " | ".join([*parts, f"{self.took_ms:,} ms"])


def batch_of(report: Mapping[str, Any]) -> Batch:
    """The figures of a report (`StreamingQueryProgress.json`, parsed)."""
    lags = [_lag(source) for source in report.get("sources", [])]
    known = [lag for lag in lags if lag is not None]
    return Batch(
        id=report["batchId"],
        records=report.get("numInputRows") or 0,
        in_per_s=_rate(report.get("inputRowsPerSecond")),
        out_per_s=_rate(report.get("processedRowsPerSecond")),
        lag=sum(known) if known else None,
        took_ms=report.get("durationMs", {}).get("triggerExecution", 0),
        bad=_bad(report.get("observedMetrics", {})),
    )


def _bad(observed: Mapping[str, Any]) -> int | None:
    """Of all places where bad records are counted; each is counted at one of them."""
    found = [figures.get("bad") for figures in observed.values() if isinstance(figures, Mapping)]
    known = [count for count in found if isinstance(count, int)]
    return sum(known) if known else None


def _rate(value: Any) -> float:
    # The first micro-batch has no time before it, and Spark writes NaN or Infinity as text.
    return float(value) if isinstance(value, int | float) else 0.0


def _lag(source: Mapping[str, Any]) -> int | None:
    """What lies between the end of the micro-batch and the end of the source's partitions."""
    latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    if latest is None or end is None:
        return None
    return sum(max(0, offset - end.get(partition, 0)) for partition, offset in latest.items())


def _offsets(value: Any) -> dict[tuple[str, str], int] | None:
    """`{topic: {partition: offset}}`, which Spark may give as text in text."""
    while isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, Mapping):
        return None
    found = {}
    for topic, partitions in value.items():
        if isinstance(partitions, Mapping):
            for partition, offset in partitions.items():
                if isinstance(offset, int):
                    found[str(topic), str(partition)] = offset
    return found or None
