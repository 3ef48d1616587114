"""Transactions that wait to be verified: does the coordinator know that this partition takes part? (KIP-890)

A transactional batch that opens a transaction here is appended only when its coordinator has said yes. Between the
question and the append the transaction may end and a new one begin; the guard tells the two apart. Held by
`producer_state`: created before the coordinator is asked, dropped when the transaction's first batch or its marker is
appended, or with time.
"""

from __future__ import annotations


class VerificationGuard:
    """A token for one attempt to verify a transaction with its coordinator: two attempts never share one (KIP-890)."""

    __slots__ = ()


class VerificationState:
    """A producer whose transaction is being verified: no batch above the lowest sequence seen may overtake it."""

    __slots__ = ("created_ms", "guard", "lowest_sequence", "producer_epoch", "supports_epoch_bump")

    def __init__(self, created_ms: int, sequence: int, producer_epoch: int, *, supports_epoch_bump: bool) -> None:
        self.created_ms = created_ms
        self.guard = VerificationGuard()
        self.lowest_sequence = sequence
        self.producer_epoch = producer_epoch
        self.supports_epoch_bump = supports_epoch_bump

    def saw(self, sequence: int, producer_epoch: int) -> None:
        """Another batch waits for the same verification. A newer epoch counts its sequences anew."""
        if producer_epoch == self.producer_epoch:
            # By size, as in Kafka, over the wrap at 2^31 too: its own answers are what tests compare with.
            self.lowest_sequence = min(self.lowest_sequence, sequence)
        elif producer_epoch > self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.lowest_sequence = sequence
