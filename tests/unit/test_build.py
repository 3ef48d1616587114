"""What `make` compiles is compiled: without it everything works, and the broker takes four times the CPU."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("name", ["decode", "native"])
def test_where_there_is_a_compiler_make_has_compiled(name: str) -> None:
    """Two packages beside each other once made setuptools refuse, and only a note said so."""
    if not (ROOT / ".venv" / ".compiled").exists():
        pytest.skip("these tests were not run by make")
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        pytest.skip("there is no C compiler")
    assert list((ROOT / "ottla" / "records").glob(f"{name}.*.so")), (
        f"see .venv/{'mypyc' if name == 'decode' else name}.log"
    )
