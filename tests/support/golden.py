"""The golden data: bytes that a real Kafka wrote, copied from ../shared/golden into tests/golden."""

from __future__ import annotations

import json
import lzma
import tarfile
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent.parent / "golden"


def golden_messages() -> list[dict[str, Any]]:
    """The lines of messages.jsonl.xz: `name`, `version`, `json`, `hex`."""
    with lzma.open(GOLDEN / "messages.jsonl.xz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def golden_data_dir(target: Path) -> Path:
    """Unpack the broker's log directory into `target` and return it."""
    unpack(GOLDEN / "data-dir.tar.xz", target)
    return target


def unpack(path: Path, target: Path) -> None:
    """Unpack an archive of ours into `target`. Python has filters since 3.11.4, and warns without one since 3.12."""
    with tarfile.open(path) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(target)


def golden_expected() -> dict[str, Any]:
    """What a stock consumer read from the broker that wrote the data directory."""
    with lzma.open(GOLDEN / "data-dir.expected.json.xz", "rt", encoding="utf-8") as text:
        expected: dict[str, Any] = json.load(text)
    return expected
