"""The directory of a pipeline: one run at a time, a state that is believed only as far as the lock goes, a stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.pipelines.connect import state as states
from ottla.pipelines.connect.state import Home, NotRunning, State, born, homes
from ottla.pipelines.errors import PipelineError

HOLD = """\
import sys, time
from pathlib import Path
from ottla.pipelines.connect.state import Home, State
home = Home("p", Path(sys.argv[1]))
with home.running():
    home.write(State("p", "p.yaml", 4711, 0.0, status="running"))
    print("running", flush=True)
    while not home.is_asked_to_stop:
        time.sleep(0.01)
    home.write(State("p", "p.yaml", 4711, 0.0, status="stopped"))
"""


def held(base: Path) -> subprocess.Popen[str]:
    """Another process that runs the pipeline `p`."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(base)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    return process


def runs(home: Home) -> bool:
    """Asked anew each time."""
    return home.is_running


def test_a_pipeline_runs_once_and_says_who_runs_it(tmp_path: Path) -> None:
    home = Home("p", tmp_path)
    with held(tmp_path) as process:
        assert runs(home)
        with (
            pytest.raises(PipelineError, match=r"p runs already \(pid 4711\): `ottla pipeline stop p`"),
            home.running(),
        ):
            raise AssertionError("it ran twice")
        home.ask_to_stop()
        assert process.wait(10) == 0
    assert not runs(home)
    state = home.read()
    assert state is not None
    assert state.status == "stopped"


def test_a_run_that_was_killed_is_known_by_its_lock(tmp_path: Path) -> None:
    home = Home("p", tmp_path)
    with held(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
    state = home.read()
    assert state is not None
    assert state.status == "killed"
    with home.running():
        assert runs(home)


def test_a_stop_that_was_asked_of_the_last_run_does_not_end_the_next(tmp_path: Path) -> None:
    home = Home("p", tmp_path)
    with home.running():
        home.ask_to_stop()
        assert home.is_asked_to_stop
    with home.running():
        assert not home.is_asked_to_stop


def test_nobody_can_be_asked_to_stop_who_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(NotRunning, match="the pipeline p does not run"):
        Home("p", tmp_path).ask_to_stop()


def test_a_new_run_waits_for_the_java_process_of_one_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home("p", tmp_path)
    home.path.mkdir()
    with subprocess.Popen(["sleep", "60"]) as jvm:
        home.write(State("p", "", 1, 0.0, status="running", jvm_pid=jvm.pid, jvm_born=born(jvm.pid)))
        monkeypatch.setattr(states, "JVM_GONE_S", 0.2)
        with pytest.raises(PipelineError, match=f"is still there: {jvm.pid}"):
            home.running().__enter__()
        jvm.kill()
    with home.running():
        pass


def test_a_process_number_that_is_used_again_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    home = Home("p", tmp_path)
    home.path.mkdir()
    home.write(State("p", "", 1, 0.0, jvm_pid=os.getpid(), jvm_born="1"))
    begun = time.monotonic()
    with home.running():
        assert time.monotonic() - begun < states.JVM_GONE_S / 2


def test_pipelines_are_listed_by_name_and_a_damaged_state_is_told(tmp_path: Path) -> None:
    for name in ("b", "a"):
        Home(name, tmp_path).path.mkdir()
        Home(name, tmp_path).write(State(name, "", 1, 0.0, status="done"))
    assert [home.name for home in homes(tmp_path)] == ["a", "b"]
    assert homes(tmp_path / "none") == []
    (tmp_path / "a" / "state.json").write_text("{")
    with pytest.raises(PipelineError, match=r"state\.json is damaged"):
        Home("a", tmp_path).read()
