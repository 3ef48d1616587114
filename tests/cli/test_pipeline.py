"""`ottla pipeline` without Spark: validate, list, status and stop answer at once, in one line or an aligned table."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.main import main
from ottla.client import Admin
from ottla.pipelines.connect.state import Home, State
from ottla.pipelines.errors import MissingDependency
from ottla.pipelines.java import find_java
from ottla.testing import Cluster
from ottla.types import TopicPartition
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


WRONG_SQL = """\
name: orders
source:
  type: json
  path: in
  schema: "id BIGNT card"
transforms:
  - filter: {where: "id > 3 AND name RLIKE '^a'"}
  - filter:
      where: "id >> > 3"
  - cast: {fields: {id: NUMBERISH}}
  - insert: {field: twice, sql: "id * 2"}
sink: {type: csv, path: out}
"""


def test_sql_that_spark_cannot_parse_is_told_with_its_line(tmp_path: Path) -> None:
    find_java_or_skip()
    file = tmp_path / "orders.yaml"
    file.write_text(WRONG_SQL)
    done = ottla("validate", str(file))
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        "Spark's parser is started to check 5 texts of SQL ...",
        f"{file}:5: source.schema: [PARSE_SYNTAX_ERROR] Syntax error at or near 'card': extra input 'card'. "
        "(line 1, pos 9)",
        f"{file}:9: transforms[1].filter.where: [PARSE_SYNTAX_ERROR] Syntax error at or near '>'. (line 1, pos 6)",
        f'{file}:10: transforms[2].cast.fields.id: [UNSUPPORTED_DATATYPE] Unsupported data type "NUMBERISH". '
        "(line 1, pos 0)",
    ]


def test_without_a_java_the_sql_is_said_to_be_unchecked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_java() -> None:
        raise MissingDependency("there is no Java here")

    monkeypatch.setattr("ottla.pipelines.java.find_java", find_java)
    file = tmp_path / "orders.yaml"
    file.write_text(YAML.replace("drop: {fields: id}", "filter: {where: id > 3}"))
    done = ottla("validate", str(file))
    assert (done.exit_code, done.output.splitlines()[1:]) == (
        0,
        [
            "The SQL of the file was not checked: there is no Java here",
            f"{file}: orders is right: json -> filter -> csv",
        ],
    )


def find_java_or_skip() -> None:
    try:
        find_java()
    except MissingDependency as missing:
        pytest.skip(str(missing))


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


def test_a_schema_of_names_and_types_is_right_without_spark(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(YAML)
    code, shown, _, loaded = answer("pipeline", "validate", str(file))
    assert (code, shown) == (0, f"{file}: orders is right: json -> drop -> csv\n")
    assert not (HEAVY | {"py4j"}) & loaded


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["list"], ["status"], ["validate", "no.yaml"]])
def test_only_a_run_loads_spark(arguments: list[str]) -> None:
    _, shown, complaints, loaded = answer("pipeline", *arguments)
    assert shown or "no.yaml: cannot be read" in complaints
    assert not HEAVY & loaded


def test_brokers_that_do_not_answer_are_told_before_spark_is_started(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(
        "name: orders\n"
        "source: {type: json, path: in, schema: id BIGINT}\n"
        "sink:\n"
        "  type: topic\n"
        "  topic: orders\n"
        "  bootstrap.servers: 127.0.0.1:1\n"
        "errors: dead-letter\n"
        "dead-letter:\n"
        "  topic: dead\n"
        "  bootstrap.servers: 127.0.0.1:2\n"
    )
    code, _, complaints, loaded = answer("pipeline", "run", str(file))
    assert code == 1
    lines = complaints.splitlines()
    for line, at, place, port in zip(lines, (6, 10), ("sink", "dead-letter"), (1, 2), strict=True):
        assert line.startswith(f"{file}:{at}: {place}.bootstrap.servers: ")
        assert line.endswith(
            f" s passed; no bootstrap broker could be reached: 127.0.0.1:{port}: connection refused: "
            "start the brokers, or correct bootstrap.servers"
        )
    assert "pyspark" not in loaded


def test_names_of_pipelines_are_completed(data_home: Path) -> None:
    said(Home("orders", data_home), status="done")
    _, shown, _, loaded = answer(
        environment={"_OTTLA_COMPLETE": "bash_complete", "COMP_WORDS": "ottla pipeline stop or", "COMP_CWORD": "3"}
    )
    assert shown == "plain,orders\n"
    assert not HEAVY & loaded


# plan


SHOP = """\
from ottla.pipelines.streams import StreamsBuilder, aggregates

def shop(front="true", value="value"):
    builder = StreamsBuilder()
    orders = builder.stream("orders", value="long").filter(front)
    orders.group_by_key().aggregate(aggregates.sum(value), name="sums").to_stream().to("totals")
    builder.stream("lines").group_by_key().count(name="lines-count").to_stream().to("counts")
    return builder.build("shop")

before = shop()
filtered = shop("value > 0")
changed = shop(value="value * 10")
"""


@pytest.fixture
def shop(tmp_path: Path) -> tuple[str, str]:
    """A file with versions of a topology, and a checkpoint that the first of them was started on."""
    from ottla.pipelines.streams.evolution import notes
    from ottla.pipelines.streams.locator import find_topology
    from ottla.pipelines.streams.notes import write_local
    from ottla.pipelines.streams.planning import NOTES, plan

    file, checkpoint = tmp_path / "shop.py", tmp_path / "checkpoint"
    file.write_text(SHOP)
    (checkpoint / NOTES).mkdir(parents=True)
    made = find_topology(f"{file}:before")
    write_local(checkpoint, {"application": "shop", "tasks": 1, "partitions": {}, "steps": notes(made, plan(made))})
    return str(file), str(checkpoint)


def test_a_plan_shows_what_keeps_its_state_and_what_needs_a_reset(shop: tuple[str, str]) -> None:
    file, checkpoint = shop
    done = ottla("plan", f"{file}:filtered", "--checkpoint", checkpoint)
    assert (done.exit_code, done.output.splitlines()) == (
        0,
        [
            f"shop on {checkpoint}: 2 kept",
            "=  sums         kept  keeps its state",
            "=  lines-count  kept  keeps its state",
            "A start goes on with the state there is.",
        ],
    )
    done = ottla("plan", f"{file}:changed", "--checkpoint", checkpoint, "--bootstrap-server", "b:9092")
    command = (
        "ottla streams-application-reset --application-id shop --bootstrap-server b:9092 --checkpoint "
        f"{checkpoint} --steps sums"
    )
    assert (done.exit_code, done.output.splitlines()) == (
        1,
        [
            f"shop on {checkpoint}: 1 kept, 1 changed",
            "~  sums         changed  needs a reset    aggregates: sum(value) -> sum(value * 10)",
            "=  lines-count  kept     keeps its state",
            "A start would be refused. To reset sums, stop the topology and run:",
            command,
        ],
    )
    done = ottla("plan", f"{file}:changed", "--checkpoint", checkpoint, "--output", "json")
    told = json.loads(done.output)
    assert (done.exit_code, told["accepted"], told["reset"]["steps"]) == (1, False, ["sums"])
    assert told["steps"][0]["differences"] == [{"what": "aggregates", "was": "sum(value)", "now": "sum(value * 10)"}]
    assert ottla("plan", f"{file}:changed", "--checkpoint", checkpoint, "--accept", "sums").exit_code == 0


def test_a_plan_on_no_checkpoint_shows_what_is_made(shop: tuple[str, str], tmp_path: Path) -> None:
    """Also where a reset of the whole topology has left an empty directory."""
    file, _ = shop
    (tmp_path / "reset").mkdir()
    for name in ("new", "reset"):
        done = ottla("plan", f"{file}:shop", "--checkpoint", str(tmp_path / name))
        assert (done.exit_code, done.output.splitlines()[1]) == (0, "+  sums         added  begins anew")


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("nowhere.py", "there is no file nowhere.py"),
        ("{file}", "{file} has before, filtered, changed: name the topology, or a function that returns it, as "
         "{file}:NAME"),
        ("{file}:other", "{file} has no other: name what it has as {file}:NAME"),
        ("{file}:SHOP", "{file} has no SHOP: name what it has as {file}:NAME"),
        ("{file}:aggregates", "{file}:aggregates is no topology: it is what StreamsBuilder.build() returns"),
        ("no.such.module:topology", "no.such.module cannot be imported: ModuleNotFoundError: No module named 'no'"),
    ],
)  # fmt: skip
def test_what_is_no_topology_is_told_in_a_line(shop: tuple[str, str], place: str, told: str) -> None:
    file, checkpoint = shop
    done = ottla("plan", place.format(file=file), "--checkpoint", checkpoint)
    assert (done.exit_code, done.output) == (1, told.format(file=file) + "\n")


def test_a_plan_asks_neither_spark_nor_a_broker(shop: tuple[str, str]) -> None:
    file, checkpoint = shop
    code, shown, _, loaded = answer("pipeline", "plan", f"{file}:filtered", "--checkpoint", checkpoint)
    assert (code, shown.count("\n")) == (0, 4)
    assert loaded & HEAVY == set()


# reset and delete


TOPIC_YAML = """\
name: orders
source: {{type: json, path: in, schema: id BIGINT}}
sink: {{type: topic, topic: orders, bootstrap.servers: "{servers}"}}
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with Cluster() as running:
        running.create_topic("orders")
        yield running


def ran(tmp_path: Path, broker: Cluster) -> tuple[Home, str]:
    """A pipeline that has written a batch into a topic; and the group in which its sink remembers that."""
    file = tmp_path / "orders.yaml"
    file.write_text(TOPIC_YAML.format(servers=broker.bootstrap_servers))
    home = Home("orders")
    said(home, status="stopped", file=str(file))
    (home.checkpoint / "main").mkdir(parents=True)
    (home.checkpoint / "main" / "metadata").write_text('{"id": "0815"}')
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        admin.alter_consumer_group_offsets("ottla-0815", {TopicPartition("orders", 0): 1}).all()
    return home, "ottla-0815"


def groups(broker: Cluster) -> list[str]:
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        return [one.group_id for one in admin.list_groups()]


def test_a_pipeline_is_reset_once_its_name_was_typed(tmp_path: Path, broker: Cluster) -> None:
    home, group = ran(tmp_path, broker)
    refused = CliRunner().invoke(main, ["pipeline", "reset", "orders"], input="order\n")
    assert refused.exit_code == 1
    assert refused.output.splitlines()[-1].endswith("orders stays as it is: order is not its name")
    assert (home.checkpoint / "main").exists()
    assert group in groups(broker)
    done = CliRunner().invoke(main, ["pipeline", "reset", "orders"], input="orders\n")
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[:3] == [
        "To reset orders removes",
        f"  the checkpoint {home.checkpoint / 'main'}",
        f"  the group {group} on {broker.bootstrap_servers}: what the sink has written",
    ]
    assert not (home.checkpoint / "main").exists()
    assert group not in groups(broker)
    assert ottla("status", "orders").exit_code == 0, "it is still known"


def test_a_pipeline_is_deleted_and_not_while_it_runs(tmp_path: Path, broker: Cluster) -> None:
    home, group = ran(tmp_path, broker)
    with home.running():
        done = ottla("delete", "orders", "--yes")
        assert (done.exit_code, done.output) == (
            1, "the pipeline orders runs: `ottla pipeline stop orders` ends it\n",
        )  # fmt: skip
    done = ottla("delete", "orders", "--yes")
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "orders was deleted.")
    assert not home.path.exists()
    assert group not in groups(broker)
    assert ottla("status", "orders").exit_code == 1


def test_without_its_file_a_pipeline_is_not_reset(tmp_path: Path, broker: Cluster) -> None:
    home, _ = ran(tmp_path, broker)
    (tmp_path / "orders.yaml").unlink()
    done = ottla("reset", "orders", "--yes")
    assert done.exit_code == 1
    assert "is not there any more, and it says where the checkpoint and the sink are" in done.output
    assert home.checkpoint.exists()
