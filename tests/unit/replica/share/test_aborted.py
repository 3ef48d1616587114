"""`ottla/replica/share/span.py` and `offset_reset.py`: records of aborted transactions, and where a group begins."""

from __future__ import annotations

import pytest

from ottla.replica.share import AcquireMode, DeliveryWindow, Limits
from ottla.replica.share.acquisition import acquire
from ottla.replica.share.offset_reset import start_timestamp
from ottla.replica.share.span import Span, aborted_spans
from ottla.storage import AbortedTxn


def span(first: int, last: int, producer: int = -1, *, is_abort: bool = False) -> Span:
    return Span(first, last, 0, 0, producer, producer >= 0, is_abort)


LOG = [
    span(0, 2, 7),  # aborted
    span(3, 4, 8),
    span(5, 5, 7, is_abort=True),
    span(6, 8, 7),  # the same producer's next transaction
    span(9, 9),
    span(10, 11, 9),  # aborted
]
ABORTED = [AbortedTxn(7, 0, 5, 5), AbortedTxn(9, 10, 14, 14)]


def test_a_producers_batches_are_aborted_from_where_its_transaction_begins_to_its_marker() -> None:
    assert aborted_spans(LOG, ABORTED) == [LOG[0], LOG[5]]


def test_aborted_records_are_archived_and_not_handed_out() -> None:
    window = DeliveryWindow()
    found = acquire(
        window,
        LOG,
        member_id="m",
        fetch_offset=0,
        records_max=500,
        batch_size=500,
        mode=AcquireMode.BATCH_OPTIMIZED,
        limits=Limits(5, 100, 1000),
        now_ms=0,
        aborted=ABORTED,
    )
    assert [(one.first_offset, one.last_offset) for one in found] == [(3, 9)]
    assert window.complete_count == 5
    window.move_start()
    assert (window.start_offset, window.end_offset) == (3, 11)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("earliest", -2),
        ("latest", -1),
        ("by_duration:PT1H", 10_000_000 - 3_600_000),
        ("by_duration:P1DT0.25S", 10_000_000 - 86_400_250),
        ("by_duration:PT2M30S", 10_000_000 - 150_000),
    ],
)
def test_a_group_begins_where_its_setting_says(setting: str, expected: int) -> None:
    assert start_timestamp(setting, 10_000_000) == expected
