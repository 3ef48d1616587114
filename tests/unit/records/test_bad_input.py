"""Damaged batches: whatever is done to one, it decodes or is refused in Kafka's words, and nothing else."""

from __future__ import annotations

import os
from random import Random

import pytest

from ottla.errors import CorruptMessage, InvalidRecord, MessageTooLarge, UnsupportedCompressionType
from ottla.records import Codec, batches
from tests.unit.records.samples import mutations, sample, sealed
from tests.unit.records.test_golden_records import every_batch

REFUSALS = (CorruptMessage, InvalidRecord, MessageTooLarge, UnsupportedCompressionType)
BYTES_MAX = 1024 * 1024
ROUNDS = 20 if os.environ.get("OTTLA_SOAK") else 1


def read_all(data: bytes) -> int:
    """Decode at every depth; the number of records. Both depths agree, about records and about refusals."""
    total = 0
    for batch in batches(data):
        repr(batch)
        try:
            rows = batch.rows(bytes_max=BYTES_MAX)
        except REFUSALS as error:
            with pytest.raises(type(error)):
                batch.scan(bytes_max=BYTES_MAX)
            raise
        assert batch.scan(bytes_max=BYTES_MAX).offsets == [row[0] for row in rows]
        total += len(rows)
    return total


def golden_samples() -> list[bytes]:
    """One batch of each kind: codec, timestamp type, control, horizon, producer."""
    kinds: dict[tuple[object, ...], bytes] = {}
    for _, batch in every_batch():
        kind = (batch.attributes, batch.has_producer_id, batch.record_count > 1)
        if kind not in kinds or batch.size < len(kinds[kind]):
            kinds[kind] = bytes(batch.data)
    return list(kinds.values())


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_every_truncation_of_a_batch_is_passed_over(codec: Codec) -> None:
    data = sample(codec)
    for cut in range(len(data)):
        assert read_all(data[:cut]) == 0


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_every_truncation_that_claims_to_be_whole_is_refused(codec: Codec) -> None:
    """Cut off, with the length and the checksum made to fit."""
    data = sample(codec)
    for cut in range(61, len(data)):
        with pytest.raises(REFUSALS):
            read_all(sealed(data[:cut]))


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_damage_behind_a_good_checksum_is_refused_or_decodes(codec: Codec) -> None:
    outcomes = {"decoded": 0, "refused": 0}
    for data in mutations(sample(codec), count=1500 * ROUNDS, seed=11):
        try:
            read_all(data)
            outcomes["decoded"] += 1
        except REFUSALS:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 20, outcomes


@pytest.mark.parametrize("data", golden_samples(), ids=lambda data: f"{len(data)}-bytes")
def test_damage_to_what_kafka_wrote_is_refused_or_decodes(data: bytes) -> None:
    refused = 0
    for damaged in mutations(data, count=200 * ROUNDS, seed=5):
        try:
            read_all(damaged)
        except REFUSALS:
            refused += 1
    assert refused > 0


def test_noise_is_refused_or_passed_over() -> None:
    random = Random(3)
    for _ in range(3000 * ROUNDS):
        noise = bytearray(random.randbytes(random.randrange(200)))
        if len(noise) > 20:
            noise[16] = 2
            noise[8:12] = random.randrange(100).to_bytes(4, "big")
        try:
            read_all(bytes(noise))
        except REFUSALS:
            continue
