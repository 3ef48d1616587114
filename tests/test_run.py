"""`make test` tells the truth: what passes only on its second try is named, and what fails twice fails the run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run import ON_THREE_NODES, RETRIED_MAX, Outcome, main, report, run_phase

ROOT = Path(__file__).parent.parent
PARAMETERS = {"OTTLA_SEED", "OTTLA_SEEDS", "OTTLA_CRASH_JOURNAL"}
"""Not switches: which seed to run again, and where to write what it did."""

FAILS_ONCE = """
from pathlib import Path

def test_fails_the_first_time():
    marker = Path(__file__).with_suffix(".ran")
    ran_before = marker.exists()
    marker.touch()
    assert ran_before

def test_passes():
    pass
"""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of tests that are not this project's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # a start without them takes a fraction of the time
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


@pytest.mark.parametrize("workers", [[], ["-p", "xdist", "-n", "2"]], ids=["alone", "two-workers"])
def test_a_test_that_passes_on_its_second_try_is_named_as_flaky(elsewhere: Path, workers: list[str]) -> None:
    (elsewhere / "test_it.py").write_text(FAILS_ONCE)
    outcome = run_phase("unit", workers)
    assert outcome.exit_code == 0
    assert outcome.flaky == ["test_it.py::test_fails_the_first_time"]
    assert "FLAKY test_it.py::test_fails_the_first_time" in report([outcome])


def test_a_test_that_fails_twice_fails_the_run_which_still_names_those_that_are_flaky(elsewhere: Path) -> None:
    (elsewhere / "test_it.py").write_text(FAILS_ONCE + "\ndef test_fails():\n    assert False\n")
    outcome = run_phase("unit", [])
    assert outcome.exit_code == 1
    assert outcome.flaky == ["test_it.py::test_fails_the_first_time"]
    assert "FAILED" in report([outcome])


def test_many_failures_at_once_are_not_tried_again(elsewhere: Path) -> None:
    (elsewhere / "test_it.py").write_text(
        f"import pytest\nfrom pathlib import Path\n\n"
        f"@pytest.mark.parametrize('number', range({RETRIED_MAX + 1}))\n"
        f"def test_fails(number):\n"
        f"    with Path('runs').open('a') as file:\n        file.write('x')\n    assert False\n"
    )
    assert run_phase("unit", []).exit_code == 1
    assert len((elsewhere / "runs").read_text()) == RETRIED_MAX + 1


def test_a_file_that_cannot_be_collected_fails_the_run_at_once(elsewhere: Path) -> None:
    (elsewhere / "test_it.py").write_text("import no_such_module\n")
    assert run_phase("unit", []).exit_code not in (0, 1)


def test_the_phase_of_three_nodes_tells_its_tests_so(elsewhere: Path) -> None:
    asked = "import os\n\ndef test_nodes():\n    assert os.environ.get('OTTLA_TESTS_NODES') == {}\n"
    (elsewhere / "test_it.py").write_text(asked.format("'3'"))
    assert run_phase("nodes", []).exit_code == 0
    (elsewhere / "test_it.py").write_text(asked.format("None"))
    assert run_phase("unit", []).exit_code == 0


def test_the_tests_of_three_nodes_are_there() -> None:
    assert [path for path in ON_THREE_NODES if not (ROOT / path).is_file()] == []


def test_a_run_without_flaky_tests_says_so() -> None:
    assert report([Outcome("unit", 0, 61.0)]).splitlines() == ["unit         1 min 01 s  passed", "flaky tests: none"]


def test_an_unknown_phase_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["units"])
    assert "invalid choice: 'units'" in capsys.readouterr().err


FAILS_TWICE = """
from pathlib import Path

def test_fails_two_times():
    runs = Path(__file__).with_suffix(".runs")
    with runs.open("a") as file:
        file.write("x")
    assert len(runs.read_text()) > 2
"""


@pytest.mark.parametrize(("text", "code"), [(FAILS_ONCE, 0), (FAILS_TWICE, 2)], ids=["fails-once", "fails-twice"])
def test_make_has_one_second_try_and_names_what_needed_it(text: str, code: int, elsewhere: Path) -> None:
    """By the Makefile's own target. It tried a third time, and what passed in the end was not told from the rest."""
    (elsewhere / "test_it.py").write_text(text)
    for name, command in (("python", sys.executable), ("pytest", f"{sys.executable} -m pytest")):
        (elsewhere / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (elsewhere / name).chmod(0o755)
    settings = [f"BIN={elsewhere}", f"COMPILED={elsewhere}/compiled", "JOBS=1", "ARGS=-p xdist test_it.py"]
    make = ["make", "-f", str(ROOT / "Makefile"), "unit", *settings, "-o", f"{elsewhere}/compiled"]
    done = subprocess.run(make, capture_output=True, text=True, check=False, env=without_make())
    assert done.returncode == code, done.stdout
    assert ("FLAKY test_it.py::test_fails_the_first_time" in done.stdout) == (code == 0), done.stdout
    assert ("FAILED (pytest's exit code 1)" in done.stdout) == (code != 0), done.stdout


def without_make() -> dict[str, str]:
    """The environment, as if no make had started these tests."""
    return {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}


@pytest.mark.parametrize(("failing", "count"), [("tests/pipelines", 2), ("none of them", 0)])
def test_make_soak_runs_all_its_commands_and_names_those_that_failed(failing: str, count: int, tmp_path: Path) -> None:
    """With a pytest that only writes down how it was called, and fails at the first two commands, or at none."""
    calls = tmp_path / "calls"
    script = f'printf \'%s\\n\' "$*" >> {calls}\ncase "$*" in *"{failing}"*) exit 1;; esac\n'
    (tmp_path / "pytest").write_text(f"#!/bin/sh\n{script}")
    (tmp_path / "pytest").chmod(0o755)
    settings = [f"BIN={tmp_path}", f"COMPILED={tmp_path}/compiled", "ARGS=--co -k 'one or two'"]
    command = ["make", "-C", str(ROOT), "soak", *settings, "-o", f"{tmp_path}/compiled"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=without_make())
    called = calls.read_text().splitlines()
    assert len(called) == 4, done.stderr
    assert all(call.endswith("--co -k one or two") for call in called)
    named = [line for line in done.stderr.splitlines() if line.startswith("soak: FAILED")]
    assert [failing in line for line in named] == [True] * count
    assert (done.returncode != 0) == (count > 0)


def test_make_soak_runs_every_test_that_a_switch_leaves_out() -> None:
    """A switch that no target sets hides its tests from everyone."""
    read = r"environ\.get\(\"(OTTLA_\w+)\"|environ\[\"(OTTLA_\w+)\"\]|\"(OTTLA_\w+)\" (?:not )?in os\.environ"
    switches = {
        "".join(names)
        for path in (ROOT / "tests").rglob("*.py")
        for names in re.findall(read, path.read_text(encoding="utf-8"))
    }
    soak = (ROOT / "Makefile").read_text(encoding="utf-8").split("\nsoak:")[1].split("\n\n")[0]
    assert switches - PARAMETERS == set(re.findall(r"(OTTLA_[A-Z_]+)=", soak))
    assert not re.search(r"\s-[mk]\s", soak), "a selection would leave tests out"
