"""Known faults, put into copies of the code one at a time, and whether the simulator finds each: `make mutants`.

A checker that has never failed may be one that cannot. Each mutant breaks one promise in one place; it is found when a
seed among the first hundred fails, or among the first two hundred of a cluster. The text that a mutant replaces must be
there exactly once, so that a mutant that no longer fits the code fails loudly instead of proving nothing.
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
CLUSTER_SEEDS = 200


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
    nodes: int = 1
    """More than one: it is looked for with the seeds of so large a cluster."""

    @property
    def seeds(self) -> int:
        return SEEDS if self.nodes == 1 else CLUSTER_SEEDS

    def put_into(self, root: Path) -> None:
        """Make the edits in a copy of the code; `ValueError` where one does not fit."""
        for edit in self.edits:
            path = root / edit.path
            text = path.read_text(encoding="utf-8")
            if text.count(edit.old) != 1:
                raise ValueError(f"{edit.path} has {text.count(edit.old)} places that look so:\n{edit.old}")
            path.write_text(text.replace(edit.old, edit.new) + edit.added, encoding="utf-8")


_PAST_THE_WATERMARK = Edit(
    "ottla/storage/watermarks.py",
    "            return self._high_watermark_place()\n        return self._log.end",
    "            return self._log.end\n        return self._log.end",
)

MUTANTS = (
    Mutant(
        "acknowledging before the append",
        (
            Edit(
                "ottla/server/handlers/produce.py",
                "info = partition.append(records, acks, _CLIENT, guard)",
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
                "        self.size = valid\n        if cut:\n            self.trim()\n"
                "            self.file().sync()  # or",
                "        cut = 0  # or",
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
    Mutant("serving past the watermark", (_PAST_THE_WATERMARK,)),
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
    Mutant(
        "answering a fetch of another leader epoch",
        (
            Edit(
                "ottla/replica/partition.py",
                "        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:\n",
                "        if False:\n",
            ),
        ),
        nodes=3,
    ),
    Mutant("serving past the watermark of a cluster", (_PAST_THE_WATERMARK,), nodes=3),
    Mutant(
        "not telling a follower that its log diverges",
        (Edit("ottla/replica/partition.py", "        if last_fetched_epoch >= 0:\n", "        if False:\n"),),
        nodes=3,
    ),
    Mutant(
        "acknowledging with fewer than min.insync.replicas",
        (
            Edit(
                "ottla/replica/leadership.py",
                "    def min_isr(self) -> int:\n",
                "    def min_isr(self) -> int:\n        return 1\n",
            ),
        ),
        nodes=3,
    ),
    Mutant(
        "keeping what a controller that resigned had not committed",
        (
            Edit(
                "ottla/machine/machine.py",
                "        self.undo.revert_to(self.committed_end)\n",
                "        self.undo.forget_below(1 << 62)\n",
            ),
        ),
        nodes=3,
    ),
    Mutant(
        "taking a replica of an older broker epoch into the ISR",
        (
            Edit(
                "ottla/metadata/control/isr.py",
                " and replica.broker_epoch in (_ANY_EPOCH, broker.epoch)\n",
                "\n",
            ),
            Edit(
                "ottla/metadata/control/isr.py",
                "        self._brokers.check_epoch(request.broker_id, request.broker_epoch)\n",
                "",
            ),
        ),
        nodes=3,
    ),
    Mutant(
        "granting a vote before it is on the device",
        (
            Edit(
                "ottla/raft/quorum_state.py",
                '    replace_file(disk, path, [data], temporary=f"{path}.tmp")\n',
                """    file = disk.open(f"{path}.tmp", create=True)
    file.truncate(0)
    file.write_at(0, data)
    file.close()
    disk.rename(f"{path}.tmp", path)
""",
            ),
        ),
        nodes=3,
    ),
)


def find(mutant: Mutant, seeds: int, jobs: int) -> tuple[int, str] | None:
    """How many seeds it took and what was found; None when it was not found."""
    with tempfile.TemporaryDirectory() as directory:
        shutil.copytree(ROOT / "ottla", Path(directory) / "ottla", ignore=shutil.ignore_patterns("__pycache__"))
        try:
            mutant.put_into(Path(directory))
        except ValueError as error:
            raise SystemExit(f"{mutant.name}: {error}") from error
        command = ["-m", "ottla.sim", "--seeds", str(seeds), "--jobs", str(jobs), "--stop", "--lines", "5"]
        if mutant.nodes > 1:
            command += ["--nodes", str(mutant.nodes), "--combined"]
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
    parser.add_argument("--seeds", type=int, help="how many to look through (default: as many as are promised)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="only mutants whose name has this in it")
    options = parser.parse_args()
    missed = 0
    for mutant in (mutant for mutant in MUTANTS if options.only in mutant.name):
        begun = time.monotonic()
        seeds = options.seeds or mutant.seeds
        found = find(mutant, seeds, options.jobs)
        if found is None:
            missed += 1
            print(f"MISSED  {mutant.name}: {seeds} seeds are clean", flush=True)
        else:
            seconds = time.monotonic() - begun
            print(f"found   {mutant.name}: within {found[0]} seeds, {seconds:.0f} s: {found[1][:120]}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
