"""`ottla/client/columnar/arrays.py`: arrays of a few values, and what making them must not cost."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from ottla.client.columnar.arrays import number, numbers, repeated, texts

READ_AND_WRITE = """
import sys
import pyarrow as pa
from ottla.client.columnar import ArrowRows, to_record_batch
from ottla.client.columnar.schema import FIELDS
from ottla.records import Record, batches, build_batch
from ottla.types import TopicPartition

rows = [Record(0, -1, None, b"no time", ()), Record(1, 5, b"k", None, (("h", b"1"),))]
[batch] = batches(build_batch(rows))
found = to_record_batch([(TopicPartition("t", 0), [(batch, 0)])], list(FIELDS))
assert found.num_rows == 2 and found["timestamp"].null_count == 1 and found["leader_epoch"].null_count == 2
again = found.drop_columns(["topic", "partition"])
assert sum(one.record_count for one in ArrowRows(again, now_ms=7).sections(3, size_max=1000)) == 2
keyless = found.select(["value"])
assert sum(one.record_count for one in ArrowRows(keyless, now_ms=7).sections(3, size_max=1000)) == 2
placed = found.select(["partition", "value"])
assert sum(one.record_count for one in ArrowRows(placed, now_ms=7).sections(3, size_max=1000)) == 2
print("pandas" in sys.modules)
"""


def test_reading_and_writing_columns_does_not_import_pandas() -> None:
    """It took the first `poll_arrow` of a process a quarter of a second, wherever pandas was installed."""
    pytest.importorskip("pandas")
    done = subprocess.run([sys.executable, "-c", READ_AND_WRITE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64()], ids=str)
def test_numbers_are_what_pyarrow_would_make_of_them(kind: pa.DataType) -> None:
    assert numbers(kind, [3, -1, 0]).equals(pa.array([3, -1, 0], kind))
    assert numbers(kind, []).equals(pa.array([], kind))
    assert number(kind, -7).equals(pa.scalar(-7, kind))


def test_values_are_repeated_as_often_as_they_should_be() -> None:
    found = repeated(pa.int32(), [5, 6, 7], [2, 0, 3])
    found.validate(full=True)
    assert found.to_pylist() == [5, 5, 7, 7, 7]
    assert repeated(pa.int32(), [], []).to_pylist() == []


def test_texts_are_what_pyarrow_would_make_of_them() -> None:
    words = ["orders", "", "žlutý kůň"]
    found = texts(words)
    found.validate(full=True)
    assert found.equals(pa.array(words, pa.string()))
