"""Bytes that are not a message: every golden message cut at every byte, mutated, and given impossible lengths.

Whatever the bytes are, a decoder raises the one decode error with the path of a field, or decodes; it never raises
anything else, never hangs, and never allocates for what the frame does not carry. A failure prints the seed that
repeats it: `OTTLA_SEED=<seed> pytest tests/unit/wire/test_bad_input.py`. With `OTTLA_SOAK` set, there are more rounds.
"""

from __future__ import annotations

import os
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from ottla.wire import DecodeError, Message, decode, decode_prefix, encode, message_class
from ottla.wire.explain import slow_decode
from tests.support.golden import golden_messages

SEED = int(os.environ.get("OTTLA_SEED", "20261104"))
ROUNDS = 200 if "OTTLA_SOAK" in os.environ else 12
GOLDEN = golden_messages()
GROUPS = [GOLDEN[start : start + 145] for start in range(0, len(GOLDEN), 145)]

in_groups = pytest.mark.parametrize("lines", GROUPS, ids=lambda lines: f"{lines[0]['name']}-{lines[-1]['name']}")


def decodes(cls: type[Message], version: int, data: bytes, about: str) -> Message | None:
    """The message, or None when the one decode error was raised; anything else fails the test."""
    try:
        message, end = decode_prefix(cls, version, data)
    except DecodeError as error:
        path, position, reason = error.path, error.position, error.reason
    except Exception as error:
        raise AssertionError(f"{about}: {type(error).__name__}: {error}: {data.hex()}") from error
    else:
        assert end <= len(data), about
        return message
    assert path.startswith(cls.__name__), f"{about}: {path}"
    assert 0 <= position <= len(data), f"{about}: {path} at {position}"
    assert reason, about
    return None


@in_groups
def test_a_message_cut_at_any_byte_is_refused(lines: list[dict[str, Any]]) -> None:
    for line in lines:
        cls, version, data = message_class(line["name"]), line["version"], bytes.fromhex(line["hex"])
        for size in range(len(data)):
            about = f"{line['name']} v{version} cut at {size} of {len(data)}"
            assert decodes(cls, version, data[:size], about) is None, f"{about} decodes"


@in_groups
def test_a_mutated_message_is_refused_or_decodes_to_what_can_be_written_back(lines: list[dict[str, Any]]) -> None:
    for line in lines:
        cls, version, data = message_class(line["name"]), line["version"], bytes.fromhex(line["hex"])
        chance = random.Random(f"{SEED}/{line['name']}/{version}")
        for number in range(ROUNDS):
            mutant = mutate(data, chance)
            about = f"OTTLA_SEED={SEED} {line['name']} v{version} mutant {number}"
            message = decodes(cls, version, mutant, about)
            if message is not None:
                written = encode(message, version)
                again = decode(cls, version, written)
                assert encode(again, version) == written, about
                assert encode(slow_decode(cls.schema, version, mutant, 0)[0], version) == written, about


def mutate(data: bytes, chance: random.Random) -> bytes:
    """One to three small damages, of the kinds that lengths, varints and tags are sensitive to."""
    damaged = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        chance.choice(DAMAGES)(damaged, chance)
    return bytes(damaged)


def _flip_a_bit(data: bytearray, chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _set_an_edge(data: bytearray, chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.choice((0x00, 0x01, 0x7F, 0x80, 0xFF))


def _write_a_length(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data) + 1)
    lengths = ("7fffffff", "80000000", "ffffffff", "fffffffe", "ffffffff0f", "ffffffffff", "8000", "7fff", "fffe")
    length = bytes.fromhex(chance.choice(lengths))
    data[start : start + len(length)] = length


def _insert(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data) + 1)
    data[start:start] = chance.randbytes(chance.randint(1, 8))


def _remove(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data) + 1)
    del data[start : start + chance.randint(1, 8)]


DAMAGES: list[Callable[[bytearray, random.Random], None]] = [
    _flip_a_bit,
    _set_an_edge,
    _write_a_length,
    _insert,
    _remove,
]


@in_groups
def test_an_impossible_length_anywhere_allocates_no_more_than_the_frame_carries(lines: list[dict[str, Any]]) -> None:
    """Two thousand million is written where a length could stand; what is then allocated stays small.

    Objects are larger than their bytes, by a factor that no declared message exceeds; a count that were believed
    would take gigabytes.
    """
    for line in lines[::3]:
        cls, version, data = message_class(line["name"]), line["version"], bytes.fromhex(line["hex"])
        slow_decode(cls.schema, version, data, 0)  # so that codec and constructors are compiled
        decodes(cls, version, data, "whole")
        frames = [
            data[:position] + length + data[position + len(length) :]
            for position in range(0, len(data), 1 + len(data) // 40)
            for length in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07")
        ]
        tracemalloc.start()
        try:
            for frame in frames:
                peaks: list[int] = []
                while len(peaks) < 3 and (not peaks or peaks[-1] >= 20_000 + 50 * len(data)):
                    # What another thread of this process allocates meanwhile is counted too, but not every time.
                    before, _ = tracemalloc.get_traced_memory()
                    tracemalloc.reset_peak()
                    decodes(cls, version, frame, f"{line['name']} v{version}")
                    peaks.append(tracemalloc.get_traced_memory()[1] - before)
                assert peaks[-1] < 20_000 + 50 * len(data), f"{line['name']} v{version}: {frame.hex()}"
        finally:
            tracemalloc.stop()
