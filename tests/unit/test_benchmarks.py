"""`benchmarks/`: the harness keeps its promises, and every benchmark still runs. No figure is judged here."""

from __future__ import annotations

import json
import math
import os
import socket
import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import AtLeast, AtMost, Bench, Benchmark, Comparison, Result, Rival, Timing, Unit, benchmark
from benchmarks import __main__ as command
from benchmarks.harness import DISK_VARIABLE, file_system, is_met, opened, real_disk

SPARKS = command.HERE / "bench_pipelines.py"
"""Runs where Spark's tests run: see tests/pipelines/test_benchmark.py."""
MODULES = sorted(set(command.HERE.glob("bench_*.py")) - {SPARKS})
KAFKAS = {"bench_broker", "bench_clients", "bench_cluster", "bench_groups"}
"""Start a Kafka each, for minutes. They say nothing of Ottla at small sizes, and `make bench` would say at once."""


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")  # kafka-python reads schemas so
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path,
            marks=pytest.mark.skipif(
                path.stem in KAFKAS and "OTTLA_SOAK" not in os.environ, reason="takes minutes: OTTLA_SOAK=1 runs it"
            ),
        )
        for path in MODULES
    ],
    ids=lambda path: path.stem,
)
def test_every_benchmark_of_a_module_works_with_small_sizes(path: Path) -> None:
    check_with_small_sizes(path)


def test_each_codec_has_a_bar_beside_kafka() -> None:
    """`make bench --only broker` judges them."""
    found, broken = command.discover([command.HERE / "bench_broker.py"])
    assert not broken
    bars = {item.name: item.bar for item in found}
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        assert bars.get(f"produce {codec}, CPU per GB") == AtMost(1.0), codec


def check_with_small_sizes(path: Path) -> None:
    found, broken = command.discover([path])
    assert not broken
    assert found, f"{path.name} registers no benchmark"
    for item in found:
        outcome = command.run(item, quick=True)
        assert outcome.error is None, item.title
        result = outcome.result
        assert result is not None
        assert math.isfinite(result.figure), item.title
        assert result.figure > 0, item.title
        if result.rival is not None:
            assert result.rival.name, item.title
            assert result.rival.figure > 0, item.title
        assert "\n" not in result.note, item.title


def registered(run: object = None, *, name: str = "spin", bar: AtLeast | AtMost | None = None) -> Benchmark:
    def spin(bench: Bench) -> Result:
        return Result(2.0, Unit.PER_SECOND, Rival("hare", 4.0), note="a note")

    return benchmark("pace", name, bar=bar, what="turns of a wheel")(run if callable(run) else spin)


def failing(bench: Bench) -> Result:
    raise ValueError("a wheel came off")


@pytest.fixture
def pretend_modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """Modules `benchmarks.bench_*` that exist only here; the command finds these instead of the real ones."""
    modules = {name: ModuleType(name) for name in ("one", "two")}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, f"benchmarks.bench_pretend_{name}", module)
    paths = [command.HERE / f"bench_pretend_{name}.py" for name in modules]
    found = command.discover
    monkeypatch.setattr(command, "discover", lambda _: found(paths))
    return modules


def add(module: ModuleType, **values: object) -> None:
    vars(module).update(values)


def test_the_command_prints_a_table_and_writes_json_without_naming_the_machine(
    pretend_modules: dict[str, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(pretend_modules["one"], slow=registered(bar=AtLeast(0.9)), fine=registered(name="run", bar=AtLeast(0.5)))
    output = tmp_path / "results.json"
    assert command.main(["--output", str(output)]) == 0, "a missed bar is no failure"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["area", "benchmark", "ours", "theirs", "ratio", "better", "bar"]
    assert " ".join(lines[2].split()) == "pace spin 2 /s 4 /s hare 0.50 x higher >= 0.9 x MISSED"
    assert lines[3].split()[-1] == "met"
    assert lines[-1] == "2 benchmarks: 1 bars met, 1 MISSED, 0 failed"
    assert any("turns of a wheel [a note]" in line for line in lines)

    text = output.read_text()
    written = json.loads(text)
    assert written["quick"] is False
    assert {"python", "cores", "kernel", "file_system"} <= written["machine"].keys()
    assert written["results"][0] == {
        "area": "pace",
        "name": "spin",
        "what": "turns of a wheel",
        "bar": ">= 0.9 x",
        "met": False,
        "ours": 2.0,
        "unit": "/s",
        "better": "higher",
        "rival": "hare",
        "theirs": 4.0,
        "ratio": 0.5,
        "note": "a note",
        "no_rival": "",
        "error": None,
    }
    assert socket.gethostname() not in text
    assert str(command.HERE) not in text
    assert str(tmp_path) not in text


def test_one_that_raises_is_reported_and_the_others_run_on(
    pretend_modules: dict[str, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(pretend_modules["one"], broken=registered(failing, name="broken"))
    add(pretend_modules["two"], fine=registered(name="fine"))
    output = tmp_path / "results.json"
    assert command.main(["--output", str(output)]) == 1
    printed = capsys.readouterr()
    assert "ERROR: ValueError: a wheel came off" in printed.out
    assert printed.out.splitlines()[-1] == "2 benchmarks: 0 bars met, 0 MISSED, 1 failed"
    assert "Traceback" in printed.err
    results = json.loads(output.read_text())["results"]
    assert [(result["name"], result["error"]) for result in results] == [("broken", "ValueError"), ("fine", None)]


def test_a_module_that_cannot_be_imported_makes_the_exit_code_1_and_the_others_run(
    pretend_modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add(pretend_modules["two"], fine=registered())
    monkeypatch.delitem(sys.modules, "benchmarks.bench_pretend_one")
    assert command.main(["--quick"]) == 1
    printed = capsys.readouterr()
    assert "bench_pretend_one.py cannot be imported" in printed.err
    assert "1 benchmarks: 0 bars met, 0 MISSED, 0 failed" in printed.out


def test_two_benchmarks_of_one_name_are_refused(pretend_modules: dict[str, ModuleType]) -> None:
    add(pretend_modules["one"], first=registered())
    add(pretend_modules["two"], second=registered())
    with pytest.raises(ValueError, match="share a name: pace: spin"):
        command.main(["--quick"])


def test_only_runs_what_matches_and_says_when_nothing_does(
    pretend_modules: dict[str, ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    add(pretend_modules["one"], one=registered(name="trot"), two=registered(name="gallop"))
    assert command.main(["--quick", "--only", "pace: GAL"]) == 0
    assert "1 benchmarks" in capsys.readouterr().out
    assert command.main(["--quick", "--only", "swim"]) == 2
    assert "no benchmark matches 'swim'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["--only", "("])
    assert "not a regular expression" in capsys.readouterr().err


def test_a_quick_run_judges_no_bar_and_leaves_the_last_results_alone(
    pretend_modules: dict[str, ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    add(pretend_modules["one"], slow=registered(bar=AtLeast(0.9)))
    monkeypatch.setattr(command, "HERE", tmp_path)
    assert command.main(["--quick"]) == 0
    assert list(tmp_path.iterdir()) == []
    assert "0 MISSED" in capsys.readouterr().out
    assert command.main([]) == 0
    assert json.loads((tmp_path / "results.json").read_text())["results"][0]["met"] is False


def test_a_bar_that_does_not_fit_its_result_is_an_error_even_when_quick() -> None:
    assert isinstance(command.run(registered(bar=AtMost(1, Unit.SECONDS)), quick=True).error, ValueError)
    alone = registered(lambda bench: Result(1.0, Unit.SECONDS), bar=AtLeast(1))
    assert isinstance(command.run(alone, quick=True).error, ValueError)


def test_a_ratio_is_not_judged_where_the_rival_is_missing_and_the_table_says_why() -> None:
    lone = Result(1.0, Unit.SECONDS, no_rival="no hare lives here")
    outcome = command.run(registered(lambda bench: lone, bar=AtMost(1)), quick=False)
    assert outcome.error is None
    assert outcome.met is None
    assert any("no hare lives here" in line for line in command.report([outcome]))


def test_a_bar_judges_the_ratio_or_with_a_unit_the_figure() -> None:
    result = Result(10e-6, Unit.SECONDS, Rival("hare", 20e-6))
    assert result.ratio == 0.5
    assert is_met(AtMost(0.5), result)
    assert not is_met(AtLeast(0.6), result)
    assert is_met(AtMost(10e-6, Unit.SECONDS), result)
    assert not is_met(AtMost(9e-6, Unit.SECONDS), result)
    assert str(AtMost(15e-6, Unit.SECONDS)) == "<= 15 µs"
    assert str(AtLeast(500e6, Unit.BYTES_PER_SECOND)) == ">= 500 MB/s"


@pytest.mark.parametrize(
    ("unit", "figure", "text"),
    [
        (Unit.SECONDS, 1.5, "1.50 s"),
        (Unit.SECONDS, 0.0123, "12.3 ms"),
        (Unit.SECONDS, 15.24e-6, "15.2 µs"),
        (Unit.SECONDS, 2e-10, "0.20 ns"),
        (Unit.SECONDS, 75.0, "75 s"),
        (Unit.BYTES, 12_345_678, "12.3 MB"),
        (Unit.BYTES_PER_SECOND, 1.234e9, "1.23 GB/s"),
        (Unit.PER_SECOND, 987_654, "988 k/s"),
        (Unit.COUNT, 12_345, "12,345"),
        (Unit.SECONDS_PER_GB, 1.9, "1.90 s/GB"),
    ],
)
def test_a_figure_prints_with_three_digits_and_a_prefix(unit: Unit, figure: float, text: str) -> None:
    assert unit.format(figure) == text


def test_the_table_fits_120_columns_however_long_the_names_are() -> None:
    def far(bench: Bench) -> Result:
        return Result(123.4e6, Unit.BYTES_PER_SECOND, Rival("a rival with a name " * 4, 1e9), note="words " * 60)

    item = benchmark("storage", "a benchmark with a name that runs on " * 3, bar=AtLeast(0.6), what="w " * 90)(far)
    lines = command.report([command.run(item, quick=False), command.run(registered(failing), quick=False)])
    assert max(len(line) for line in lines) <= 120
    assert "MISSED" in lines[2]
    assert "0.12 x" in lines[2]


def test_a_benchmark_says_what_it_measures() -> None:
    @benchmark("pace", "walk")
    def documented(bench: Bench) -> Result:
        """Steps a minute.

        On gravel.
        """
        return Result(1, Unit.COUNT)

    assert documented.what == "Steps a minute."
    with pytest.raises(ValueError, match="docstring"):
        benchmark("pace", "crawl")(lambda bench: Result(1, Unit.COUNT))


def test_a_comparison_takes_turns_after_one_round_that_does_not_count() -> None:
    calls = []
    comparison = Bench().compare(
        lambda: calls.append("a"), lambda: calls.append("b"), rounds=3, before=lambda: calls.append("-")
    )
    assert "".join(calls) == "-a-b" + "-a-b" + "-b-a" + "-a-b"
    assert len(comparison.ours.wall_s) == len(comparison.theirs.wall_s) == 3
    assert len(comparison.ours.cpu_s) == len(comparison.theirs.kernel_s) == 3


def test_measuring_counts_cpu_time_and_the_kernels_share_of_it() -> None:
    def read_much() -> None:
        with Path("/dev/zero").open("rb", buffering=0) as zeros:
            for _ in range(1024):  # long enough for the ticks in which the kernel counts
                zeros.read(1 << 20)

    timing = Bench().measure(read_much, rounds=2)
    assert len(timing.wall_s) == 2
    assert 0 < timing.best_cpu_s <= timing.median_cpu_s
    assert 0 < timing.best_s <= timing.median_s
    assert max(timing.kernel_s) > 0


def test_results_of_a_comparison_come_from_the_best_rounds() -> None:
    comparison = Comparison(Timing([0.5, 0.25], [0.2, 0.1], [0, 0]), Timing([1.0, 2.0], [0.8, 0.4], [0, 0]))
    assert comparison.rate(100, Unit.PER_SECOND, rival="hare") == Result(400, Unit.PER_SECOND, Rival("hare", 100))
    assert comparison.each(10, rival="hare").ratio == 0.25
    assert comparison.each(10, rival="hare", cpu=True) == Result(0.01, Unit.SECONDS, Rival("hare", 0.04))


def test_a_temporary_directory_is_on_a_device_and_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(quick=True) as bench:
        path = bench.temp_dir()
        Path(path, "file").write_bytes(b"x")
        assert bench.temp_dir() != path
    assert not Path(path).exists()
    if os.path.isdir("/dev/shm") and file_system("/dev/shm") == "tmpfs":
        monkeypatch.setenv(DISK_VARIABLE, "/dev/shm")
        with pytest.raises(OSError, match=DISK_VARIABLE):
            real_disk()
        assert real_disk(any_will_do=True) == "/dev/shm"
