"""A raft node that dies at any operation, by power cut or kill: nothing committed is lost, no epoch is led twice.

A failing case prints its parameters; `python -m tests.unit.raft.test_crash SEED...` plays longer histories.
"""

from __future__ import annotations

import sys
from random import Random

import pytest

from ottla.raft import RaftConfig
from ottla.raft.quorum_state import read_election
from ottla.sim import CHANGES, Moment
from ottla.world import NodeWorld
from tests.unit.raft.nodes import DATA, Machine, Recorder, numbers, raft_node, record

CONFIG = RaftConfig(
    metadata_log_segment_bytes=700, metadata_max_retention_bytes=2500, controller_quorum_election_timeout_ms=5
)
QUORUM_STATE = f"{DATA}/__cluster_metadata-0/quorum-state"
APPENDS = 24


class History:
    """What has happened to one machine, and what must be true of it because of that."""

    def __init__(self, seed: int) -> None:
        self.machine = Machine(seed)
        self.chance = Random(f"{seed} history")
        self.committed: list[int] = []
        self.appended: list[int] = []
        """In this life, and not yet told as committed."""
        self.led_epochs: list[int] = []
        self.next_number = 0
        self.snapshot_count = 0

    def live(self) -> bool:
        """One life; False when it died before its end."""
        return self.machine.live(self._life) is not None

    async def _life(self, world: NodeWorld) -> bool:
        raft, watch = raft_node(world, config=CONFIG), Watch(self)
        election = read_election(world.disk, QUORUM_STATE)
        last_led = self.led_epochs[-1] if self.led_epochs else 0
        assert (election.epoch if election else 0) >= last_led, "an epoch that was led is written down"
        raft.subscribe(watch)
        await raft.start()
        await raft.until_caught_up()
        assert raft.failure is None
        for step in range(APPENDS):
            if watch.is_caught_up:
                fresh = list(range(self.next_number, self.next_number + self.chance.choice((1, 1, 3))))
                self.next_number += len(fresh)
                self.appended += fresh
                raft.append([record(number, size=20) for number in fresh])
            if (
                step % 7 == 5
                and watch.batches
                and await raft.create_snapshot(watch.batches[-1].end_offset, watch.batches[-1].epoch, watch.records)
            ):
                self.snapshot_count += 1
            if step == 12:
                raft.resign("the test")
                while self.chance.random() < 0.95 and not watch.is_caught_up:
                    await world.tasks.sleep_ms(5)
            await world.tasks.sleep_ms(self.chance.choice((0, 0, 1, 5)))
        is_leader = watch.is_caught_up
        await raft.stop()
        assert raft.failure is None
        assert not (is_leader and self.appended), "a leader's clean stop commits everything"
        return True

    def die(self, *, is_power_cut: bool) -> None:
        if is_power_cut:
            self.machine.disk.crash()
        else:
            self.machine.disk.process_crash()

    def crash_at(self, nth: int, moment: Moment) -> None:
        self.machine.disk.clear_faults()
        self.machine.disk.crash_at(nth, kinds=CHANGES, moment=moment)


class Watch(Recorder):
    """A listener that holds everything it is told against the history. Each new one is told all from the start."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self.history = history
        self.is_caught_up = False

    def on_leader(self, epoch: int) -> None:
        super().on_leader(epoch)
        history = self.history
        assert not history.led_epochs or epoch > history.led_epochs[-1], f"{epoch} follows {history.led_epochs}"
        history.led_epochs.append(epoch)
        told = numbers(self.records)
        before, after = told[: len(history.committed)], told[len(history.committed) :]
        assert before == history.committed, "what was committed is told, in order"
        assert after == history.appended[: len(after)], "what follows was appended, in order and without a gap"
        history.committed = told
        # What a dead life appended and is not here now is gone; what this life appended before it resigned is here.
        history.appended = []
        self.is_caught_up = True

    def on_resign(self) -> None:
        super().on_resign()
        self.is_caught_up = False

    def on_commit(self, batches: list) -> None:  # type: ignore[type-arg]
        super().on_commit(batches)
        if not self.is_caught_up:
            return
        for batch in batches:
            fresh = numbers(record for record, _ in batch.records)
            assert self.history.appended[: len(fresh)] == fresh
            del self.history.appended[: len(fresh)]
            self.history.committed += fresh


def test_a_history_without_a_crash_uses_what_is_to_be_crashed() -> None:
    """Segments are rolled and deleted, snapshots made and removed: else the tests below would prove little."""
    history = History(0)
    assert history.live()
    assert history.live()
    assert len(history.led_epochs) == 4
    assert history.snapshot_count >= 4
    assert history.committed == list(range(history.next_number))
    names = history.machine.disk.names(f"{DATA}/__cluster_metadata-0")
    assert f"{0:020d}.log" not in names
    assert any(name.endswith(".checkpoint.deleted") for name in names)


def change_count() -> int:
    history = History(0)
    before = history.machine.disk.counts.copy()
    assert history.live()
    return sum(history.machine.disk.counts[kind] - before[kind] for kind in CHANGES)


@pytest.mark.parametrize("is_power_cut", [True, False], ids=["power-cut", "kill"])
@pytest.mark.parametrize("part", range(4))
def test_death_at_any_operation_loses_nothing_committed(part: int, is_power_cut: bool) -> None:
    moments: list[Moment] = ["before", "during", "after"]
    count = change_count()
    assert count > 100
    died = 0
    for nth in range(1 + part, count + 1, 4):
        history = History(nth)
        history.crash_at(nth, moments[nth // 4 % 3])
        if not history.live():
            died += 1
            history.die(is_power_cut=is_power_cut)
        history.machine.disk.clear_faults()
        assert history.live(), f"nth={nth} power cut={is_power_cut}\n{history.machine.disk.trace()}"
        history.machine.close()
    assert died > count // 4 - 30


def many_lives(seed: int, lives: int) -> None:
    history = History(seed)
    chance = Random(f"{seed} deaths")
    for _ in range(lives):
        history.crash_at(chance.randrange(1, 250), chance.choice(["before", "during", "after"]))
        if not history.live():
            history.die(is_power_cut=chance.random() < 0.7)
    history.machine.disk.clear_faults()
    assert history.live(), f"seed={seed}\n{history.machine.disk.trace()}"
    assert len(history.led_epochs) > 1
    history.machine.close()


@pytest.mark.parametrize("seed", range(12))
def test_many_deaths_in_a_row_lose_nothing_committed(seed: int) -> None:
    many_lives(seed, lives=12)


if __name__ == "__main__":
    for given in sys.argv[1:] or ["0"]:
        many_lives(int(given), lives=60)
        print(f"seed {given}: nothing committed was lost")
