"""The mutants fit the code in every test run; that each is found within its seeds is a long run (`make soak`)."""

from __future__ import annotations

import os

import pytest

from tests.sim.mutants import MUTANTS, ROOT, Mutant, find


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_exactly_one_place_of_the_code(mutant: Mutant) -> None:
    for edit in mutant.edits:
        assert (ROOT / edit.path).read_text(encoding="utf-8").count(edit.old) == 1, f"{edit.path}: {edit.old}"


@pytest.mark.skipif(not os.environ.get("OTTLA_SOAK"), reason="a long run: make soak, or make mutants")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_known_fault_is_found_within_the_seeds_that_are_promised(mutant: Mutant) -> None:
    assert find(mutant, mutant.seeds, 1) is not None, f"{mutant.name} is not found"
