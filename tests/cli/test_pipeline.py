"""`ottla pipeline` without Spark: validate, list, status and stop answer at once, in one line or an aligned table."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.main import main
from ottla.pipelines.connect.state import Home, State
from tests.cli.test_first_answers import answer

YAML = """\
name: orders
source: {type: json, path: in, schema: id BIGINT}
transforms:
  - drop: {fields: id}
sink: {type: csv, path: out}
"""
HEAVY = {"pyspark", "pyarrow", "pandas", "numpy", "ottla.client", "asyncio"}


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "ottla" / "pipelines"


def ottla(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["pipeline", *arguments])


def said(home: Home, **known: object) -> None:
    """A state that a pipeline left behind."""
    home.path.mkdir(parents=True, exist_ok=True)
    state = State(home.name, "orders.yaml", 4711, time.time() - 5, source="json", sink="csv")
    for name, value in known.items():
        setattr(state, name, value)
    home.write(state)


def test_a_file_that_is_right_is_told_and_one_that_is_not_has_lines(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(YAML)
    done = ottla("validate", str(file))
    assert (done.exit_code, done.output) == (0, f"{file}: orders is right: json -> drop -> csv\n")
    assert json.loads(ottla("validate", str(file), "--output", "json").output) == {
        "valid": True, "name": "orders", "problems": [],
    }  # fmt: skip

    file.write_text(YAML.replace("drop", "dorp").replace("csv", "cvs"))
    done = ottla("validate", str(file))
    assert done.exit_code == 1
    assert done.output == (
        f"{file}:4: there is no transform dorp: did you mean drop?\n{file}:5: there is no sink cvs: did you mean csv?\n"
    )
    done = ottla("validate", str(file), "--output", "json")
    assert done.exit_code == 1
    assert [problem["line"] for problem in json.loads(done.output)["problems"]] == [4, 5]
    assert ottla("run", str(file)).exit_code == 1, "a file that is wrong is not run"


def test_pipelines_are_listed_and_shown_in_aligned_columns(data_home: Path) -> None:
    assert ottla("list").output == "No pipeline was run here yet.\n"
    assert ottla("status").output == "No pipeline was run here yet.\n"
    said(Home("orders", data_home), status="done", batch=3, records=12345, in_per_s=1000.4, out_per_s=2000, batch_ms=90)
    said(Home("b", data_home), status="failed", error="orders-0@7: json: not JSON", bad=2, lag=1)
    assert ottla("list").output == (
        "NAME    STATUS  PATH         FILE\n"
        "b       failed  json -> csv  orders.yaml\n"
        "orders  done    json -> csv  orders.yaml\n"
    )
    assert ottla("status").output == (
        "NAME    STATUS  PID  BATCH  RECORDS  BAD   IN/S  OUT/S  LAG  BATCH-MS  AGE\n"
        "b       failed    -      -        0    2      0      0    1         0   0s\n"
        "orders  done      -      3   12,345    -  1,000  2,000    -        90   0s\n"
        "b: orders-0@7: json: not JSON\n"
    )
    shown = json.loads(ottla("status", "orders", "--output", "json").output)
    assert (shown["records"], shown["status"]) == (12345, "done")
    assert [one["name"] for one in json.loads(ottla("list", "--output", "json").output)] == ["b", "orders"]


def test_a_pipeline_that_runs_is_asked_to_stop_and_waited_for(data_home: Path) -> None:
    home = Home("orders", data_home)
    begun = threading.Event()

    def running() -> None:
        with home.running():
            said(home, status="running")
            begun.set()
            while not home.is_asked_to_stop:
                time.sleep(0.01)
            said(home, status="stopped")

    thread = threading.Thread(target=running)
    thread.start()
    begun.wait(10)
    assert ottla("status", "orders").output.splitlines()[1].split()[:3] == ["orders", "running", "4711"]
    done = ottla("stop", "orders")
    thread.join(10)
    assert (done.exit_code, done.output) == (0, "orders has stopped.\n")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["stop", "order"], "there is no pipeline order: did you mean orders?"),
        (["stop", "orders"], "the pipeline orders does not run"),
        (["status", "xyz"], "there is no pipeline xyz that was run here"),
        (["statsu"], "ottla pipeline: there is no command statsu: did you mean `ottla pipeline status`?"),
        (["validate"], "Missing argument 'FILE'. See `main pipeline validate --help`."),
    ],
)
def test_a_mistake_is_one_line(data_home: Path, arguments: list[str], line: str) -> None:
    said(Home("orders", data_home), status="done")
    done = ottla(*arguments)
    assert (done.exit_code, done.output) == (1, line + "\n")


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["list"], ["status"], ["validate", "no.yaml"]])
def test_only_a_run_loads_spark(arguments: list[str]) -> None:
    _, shown, complaints, loaded = answer("pipeline", *arguments)
    assert shown or "no.yaml: cannot be read" in complaints
    assert not HEAVY & loaded


def test_names_of_pipelines_are_completed(data_home: Path) -> None:
    said(Home("orders", data_home), status="done")
    _, shown, _, loaded = answer(
        environment={"_OTTLA_COMPLETE": "bash_complete", "COMP_WORDS": "ottla pipeline stop or", "COMP_CWORD": "3"}
    )
    assert shown == "plain,orders\n"
    assert not HEAVY & loaded
