"""Producers that have sent almost 2^31 records to every partition, so that their sequence numbers are about to wrap."""

from __future__ import annotations

import pytest

from ottla.client.producer.sequences import PartitionSequences, ProducerIdAndEpoch


def begin_at(monkeypatch: pytest.MonkeyPatch, sequence: int) -> None:
    """Have producers go on with `sequence` in each partition, as if all records before it were written.

    A broker takes that of a producer that it does not know, as Kafka's do: it may have forgotten the producer.
    """
    begin_again = PartitionSequences.begin_again

    def begin(self: PartitionSequences, producer: ProducerIdAndEpoch) -> None:
        is_first = not self.producer.is_valid
        begin_again(self, producer)
        if is_first:
            self.next_sequence, self.last_acked_sequence = sequence, sequence - 1

    monkeypatch.setattr(PartitionSequences, "begin_again", begin)
