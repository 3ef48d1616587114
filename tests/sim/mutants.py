"""Known faults, put into copies of the code one at a time, and whether the simulator finds each: `make mutants`.

A checker that has never failed may be one that cannot. Each mutant breaks one promise in one place; it is found when a
seed among the first hundred fails. The text that a mutant replaces must be there exactly once, so that a mutant that no
longer fits the code fails loudly instead of proving nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SEEDS = 100


@dataclass(frozen=True, slots=True)
class Edit:
    path: str
    old: str
    new: str
    added: str = ""
    """Put at the end of the file."""


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    edits: tuple[Edit, ...]


MUTANTS = (
    Mutant(
        "acknowledging before the append",
        (
            Edit(
                "ottla/server/handlers/produce.py",
                "info = partition.append(records, acks, verification_guard=guard)",
                "info = _promise(context, partition, records, acks)",
                """

def _promise(context, partition, records, acks):
    from ottla.storage import AppendInfo
    log = partition.local_log()
    batch, data, end = Batch(memoryview(records), 0), bytearray(records), log.log_end_offset
    context.node.world.tasks.later(1, lambda: partition.append(data, required_acks=acks))
    return AppendInfo(end, end + batch.last_offset_delta, -1, log.log_start_offset, len(data))
""",
            ),
        ),
    ),
    Mutant(
        "skipping the sequence check",
        (
            Edit(
                "ottla/storage/producer_append.py",
                "            self._check_sequence(batch.producer_epoch, batch.base_sequence, offset)\n",
                "            pass\n",
            ),
            Edit(
                "ottla/storage/producer_state.py",
                "return None if entry is None else entry.find_duplicate(batch)",
                "return None",
            ),
        ),
    ),
    Mutant(
        "not truncating a torn tail",
        (
            Edit(
                "ottla/storage/segment.py",
                "        cut = self.size - valid\n        self.size = valid\n        self.trim()\n",
                "        cut = 0\n",
            ),
        ),
    ),
    Mutant(
        "acknowledging before the sync",
        (
            Edit(
                "ottla/storage/log_appender.py",
                "if end_offset - owner.flusher.recovery_point >= rules.flush_messages:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "serving past the watermark",
        (
            Edit(
                "ottla/storage/watermarks.py",
                "            return self._high_watermark_place()\n        return self._log.end",
                "            return self._log.end\n        return self._log.end",
            ),
        ),
    ),
    Mutant(
        "acknowledging an offset commit before the append",
        (
            Edit(
                "ottla/coordinator/runtime.py",
                "        answer = machine.answer(name, partial(decide, slot.shard))\n",
                "        answer = _early(self, slot, name, decide)\n",
                """

def _early(runtime, slot, name, decide):
    response = decide(slot.shard).response
    runtime.world.tasks.later(1, lambda: runtime._submit(slot, name, lambda: decide(slot.shard)))
    return response
""",
            ),
        ),
    ),
    Mutant(
        "ending a transaction before its markers are written",
        (
            Edit(
                "ottla/coordinator/transaction/completion.py",
                "        sent = self._markers.send(marker, list(ending.remaining), "
                "transaction_version=transaction.client_version)\n",
                "        partitions = list(ending.remaining)\n"
                "        self._world.tasks.later(1, lambda: self._markers.send(\n"
                "            marker, partitions, transaction_version=transaction.client_version))\n"
                "        self._complete(ending)\n"
                "        return\n",
            ),
        ),
    ),
    Mutant(
        "skipping the producer epoch check",
        (
            Edit(
                "ottla/coordinator/transaction/shard.py",
                "    if known.producer_epoch != producer.epoch:\n        raise ProducerFenced\n",
                "",
            ),
            Edit(
                "ottla/coordinator/transaction/ending.py",
                "    if transaction.producer_epoch != producer.epoch:\n        raise ProducerFenced\n",
                "",
            ),
            Edit(
                "ottla/coordinator/transaction/ending.py",
                "    if not (is_current or (is_complete and (is_behind or is_overflow))):\n",
                "    if False:\n",
            ),
        ),
    ),
    Mutant(
        "reading committed records past the last stable offset",
        (
            Edit(
                "ottla/storage/watermarks.py",
                "        return self._log.end if isolation is Isolation.LOG_END else self._last_stable_place()\n",
                "        return self._log.end if isolation is Isolation.LOG_END else self._high_watermark_place()\n",
            ),
        ),
    ),
    Mutant(
        "serving a group from a shard that is not loaded yet",
        (
            Edit(
                "ottla/coordinator/runtime.py",
                "            while offset < slot.log.log_end_offset:\n",
                "            self._loaded(slot, 0)\n"
                "            await self.world.tasks.sleep_ms(0)\n"
                "            while offset < slot.log.log_end_offset:\n",
            ),
            Edit(
                "ottla/coordinator/runtime.py",
                "        self._loaded(slot, self.world.clock.monotonic_ms() - started_ms)\n",
                "        slot.context.undo.is_enabled = True\n",
            ),
        ),
    ),
)


def find(mutant: Mutant, seeds: int, jobs: int) -> tuple[int, str] | None:
    """How many seeds it took and what was found; None when it was not found."""
    with tempfile.TemporaryDirectory() as directory:
        shutil.copytree(ROOT / "ottla", Path(directory) / "ottla", ignore=shutil.ignore_patterns("__pycache__"))
        for edit in mutant.edits:
            path = Path(directory) / edit.path
            text = path.read_text(encoding="utf-8")
            if text.count(edit.old) != 1:
                raise SystemExit(
                    f"{mutant.name}: {edit.path} has {text.count(edit.old)} places that look so:\n{edit.old}"
                )
            path.write_text(text.replace(edit.old, edit.new) + edit.added, encoding="utf-8")
        command = ["-m", "ottla.sim", "--seeds", str(seeds), "--jobs", str(jobs), "--stop", "--lines", "5"]
        done = subprocess.run(
            [sys.executable, *command],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": directory},
            capture_output=True,
            text=True,
            check=False,
        )
    ran = re.search(r"^(\d+) seeds in", done.stdout, re.MULTILINE)
    if ran is None:
        raise SystemExit(f"{mutant.name}: the simulator did not run\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    found = re.search(r"^FAILED seed \d+: (.*)$", done.stdout, re.MULTILINE)
    return None if found is None else (int(ran.group(1)), found.group(1))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="only mutants whose name has this in it")
    options = parser.parse_args()
    missed = 0
    for mutant in (mutant for mutant in MUTANTS if options.only in mutant.name):
        begun = time.monotonic()
        found = find(mutant, options.seeds, options.jobs)
        if found is None:
            missed += 1
            print(f"MISSED  {mutant.name}: {options.seeds} seeds are clean", flush=True)
        else:
            seconds = time.monotonic() - begun
            print(f"found   {mutant.name}: within {found[0]} seeds, {seconds:.0f} s: {found[1][:120]}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
