"""The loops that touch every record: in C where csrc was compiled, in plain Python where it was not.

Both do the same and are run by the same tests, so that nothing but the time depends on which it is. `IS_COMPILED`
tells benchmarks and bug reports.
"""

from __future__ import annotations

try:
    from ottla.records.native import (
        ColumnBuilder,
        RowEncoder,
        append_record,
        decode_records,
        group_rows,
        murmur2,
        partition_of,
        take_memory,
        with_content,
    )

    IS_COMPILED = True
except ImportError:  # never built, or for another Python
    from ottla.records.append import append_record
    from ottla.records.columns import ColumnBuilder, RowEncoder, group_rows  # type: ignore[assignment]
    from ottla.records.consumed import decode_records, with_content
    from ottla.records.memory import take_memory
    from ottla.records.murmur import murmur2, partition_of

    IS_COMPILED = False

__all__ = [
    "IS_COMPILED",
    "ColumnBuilder",
    "RowEncoder",
    "append_record",
    "decode_records",
    "group_rows",
    "murmur2",
    "partition_of",
    "take_memory",
    "with_content",
]
