"""The cleaner beside Kafka's own: the same log, the same clock, the same commands, and the files compared.

`CleanerOracle.java` drives Kafka's `UnifiedLog`, `LogCleanerManager` and `Cleaner`. Every script is random from its
seed: plain, idempotent and transactional producers, tombstones, aborts, restarts, dedupe buffers of all sizes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.records import Batch, batches
from tests.support.cleaner_log import ScriptWriter, run_script
from tests.support.kafka import run_java

pytestmark = pytest.mark.java

ORACLE = Path(__file__).parent.parent.parent / "support" / "CleanerOracle.java"
SCRIPT_COUNT = 200 if os.environ.get("OTTLA_SOAK") else 12


def ask_kafka(scripts: Sequence[Sequence[str]], directory: Path) -> list[list[str]]:
    """What Kafka prints for each script; its log directories are 0, 1, 2... under `directory`."""
    commands = directory / "scripts.txt"
    commands.write_text("".join(f"{line}\n" for script in scripts for line in script))
    done = run_java(str(ORACLE), [str(commands), str(directory)], timeout=20 * len(scripts))
    assert done.returncode == 0, done.stderr
    answers: list[list[str]] = []
    for line in done.stdout.splitlines():
        if line.startswith("script "):
            answers.append([])
        answers[-1].append(line)
    return answers


def test_cleaned_segments_have_the_bytes_that_kafka_writes(tmp_path: Path) -> None:
    """After every run, `.log`, `.index`, `.timeindex` and `.txnindex` of every closed segment; and what is dirty, what
    was read, kept and invalid, and where the run ended."""
    runs = [run_script(ScriptWriter(seed).write(200)) for seed in range(SCRIPT_COUNT)]
    expected = ask_kafka([commands for _, commands, _ in runs], tmp_path)
    assert sum(line.startswith("cleaned to") for answers in expected for line in answers) > 3 * SCRIPT_COUNT
    for (_, commands, printed), answers in zip(runs, expected, strict=True):
        assert printed == answers, commands[0]


def test_compressed_batches_keep_the_records_and_headers_that_kafka_keeps(tmp_path: Path) -> None:
    runs = [run_script(ScriptWriter(seed, is_compressed=True).write(150)) for seed in range(SCRIPT_COUNT // 2)]
    answers = ask_kafka([commands for _, commands, _ in runs], tmp_path)
    for place, ((ours, _, printed), expected) in enumerate(zip(runs, answers, strict=True)):
        ends = [line.split(",")[0] for line in expected if line.startswith("cleaned to")]
        assert ends
        assert [line.split(",")[0] for line in printed if line.startswith("cleaned to")] == ends
        kafkas = sorted((tmp_path / str(place) / "topic-0").glob("*.log"))
        theirs = [shown(batch) for file in kafkas for batch in batches(file.read_bytes())]
        assert theirs
        assert [shown(batch) for segment in ours.test.log.segments for _, batch in segment.batches()] == theirs


def shown(batch: Batch) -> tuple[object, ...]:
    """All of a batch that does not depend on who compressed it."""
    batch.ensure_valid()
    return (
        batch.base_offset,
        batch.last_offset,
        batch.leader_epoch,
        batch.attributes,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.records(),
    )
