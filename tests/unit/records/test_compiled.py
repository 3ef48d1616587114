"""The compiled modules, where there are any, were made from the sources that are here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ottla.records

RECORDS = Path(ottla.records.__file__).parent


@pytest.mark.parametrize(("module", "sources"), [("decode", "decode.py"), ("native", "csrc/*")])
def test_a_compiled_module_is_no_older_than_its_source(module: str, sources: str) -> None:
    """Python prefers it to the source: an old one would make every change to the source invisible."""
    compiled = sorted(RECORDS.glob(f"{module}.*.so"))
    if not compiled:
        pytest.skip("not compiled here; `make test` does it where there is a C compiler")
    newest = max(source.stat().st_mtime for source in RECORDS.glob(sources))
    assert compiled[0].stat().st_mtime >= newest, "run `make unit`, which compiles it"


def test_without_the_compiled_module_the_plain_twins_are_taken() -> None:
    """In a process that cannot import it, as where nobody built it."""
    script = (
        "import sys; sys.modules['ottla.records.native'] = None\n"
        "from ottla import records\n"
        "from ottla.records import append, columns, consumed, memory, murmur\n"
        "assert not records.IS_COMPILED\n"
        "assert records.append_record is append.append_record\n"
        "assert records.ColumnBuilder is columns.ColumnBuilder\n"
        "assert records.RowEncoder is columns.RowEncoder\n"
        "assert records.group_rows is columns.group_rows\n"
        "assert records.decode_records is consumed.decode_records\n"
        "assert records.with_content is consumed.with_content\n"
        "assert records.take_memory is memory.take_memory\n"
        "assert (records.murmur2, records.partition_of) == (murmur.murmur2, murmur.partition_of)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_broker_starts_without_what_only_clients_need() -> None:
    script = (
        "import sys, ottla.records\n"
        "loaded = [name for name in sys.modules if name.split('.')[-1] in ('columns', 'consumed', 'pyarrow')]\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_every_name_of_the_package_is_there() -> None:
    for name in ottla.records.__all__:
        assert getattr(ottla.records, name) is not None
