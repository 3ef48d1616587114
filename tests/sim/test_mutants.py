"""The mutants fit the code in every test run; that each is found within its seeds is a long run (`make soak`)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.sim.mutants import MUTANTS, ROOT, Mutant, find


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_exactly_one_place_of_the_code_and_is_python(mutant: Mutant, tmp_path: Path) -> None:
    paths = {edit.path for edit in mutant.edits}
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    mutant.put_into(tmp_path)
    for path in paths:
        changed = (tmp_path / path).read_text(encoding="utf-8")
        assert changed != (ROOT / path).read_text(encoding="utf-8")
        compile(changed, path, "exec")


@pytest.mark.skipif(not os.environ.get("OTTLA_SOAK"), reason="a long run: make soak, or make mutants")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_known_fault_is_found_within_the_seeds_that_are_promised(mutant: Mutant) -> None:
    assert find(mutant, mutant.seeds, 1) is not None, f"{mutant.name} is not found"
