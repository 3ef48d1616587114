"""The compiled decoder, where there is one, was made from the source that is here."""

from __future__ import annotations

from pathlib import Path

import pytest

import ottla.records

RECORDS = Path(ottla.records.__file__).parent


def test_the_compiled_decoder_is_no_older_than_its_source() -> None:
    """Python prefers it to the source: an old one would make every change to the source invisible."""
    compiled = sorted(RECORDS.glob("decode.*.so"))
    if not compiled:
        pytest.skip("no compiled decoder here; `make test` makes one where there is a C compiler")
    assert compiled[0].stat().st_mtime >= (RECORDS / "decode.py").stat().st_mtime, "run `make unit`, which compiles it"
