"""The compiled modules, where there are any, were made from the sources that are here."""

from __future__ import annotations

from pathlib import Path

import pytest

import ottla.records

RECORDS = Path(ottla.records.__file__).parent


@pytest.mark.parametrize("source", ["decode.py", "native.c"])
def test_a_compiled_module_is_no_older_than_its_source(source: str) -> None:
    """Python prefers it to the source: an old one would make every change to the source invisible."""
    compiled = sorted(RECORDS.glob(f"{Path(source).stem}.*.so"))
    if not compiled:
        pytest.skip("not compiled here; `make test` does it where there is a C compiler")
    assert compiled[0].stat().st_mtime >= (RECORDS / source).stat().st_mtime, "run `make unit`, which compiles it"
