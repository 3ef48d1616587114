"""What a person meets first: help, mistakes and completion. They load next to nothing, which is why they are quick."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.cli.main import COMMANDS
from ottla.testing import Cluster

PAGE = Path(__file__).parent.parent.parent / "docs" / "tools.md"
FACTS = Path(__file__).parent.parent / "golden" / "kafka-facts" / "tools.json"
GROUPS = ("cluster", "storage")
"""Commands with commands of their own; `ottla cluster` is not what Kafka's tool of that name is."""
TOOLS = sorted(name for name in COMMANDS if f"kafka-{name}" in json.loads(FACTS.read_text()) and name not in GROUPS)
HEAVY = ("ottla.client", "ottla.node", "ottla.server", "ottla.wire", "ottla.records", "ottla.world", "asyncio", "ssl",
         "uvloop", "numpy", "pyarrow")  # fmt: skip
"""What takes longer to load than the whole answer may."""
SHORTENED = {
    # Kafka's list has the beginnings of options that its parser also takes for the whole.
    "consumer-groups": {"--bootstrap", "--from", "--to"},
    "console-producer": {"--batch", "--command", "--reader"},
    "console-consumer": {"--command"},
    "consumer-perf-test": {"--num"},
    "producer-perf-test": {"--payload"},
}


def answer(
    *arguments: str, environment: dict[str, str] | None = None, text: str = ""
) -> tuple[int, str, str, set[str]]:
    """Exit code, output, complaints, and the modules that were loaded for it."""
    script = (
        "import sys\n"
        "from ottla.cli.main import main\n"
        "try:\n    main(prog_name='ottla')\n"
        "finally:\n    print('LOADED', *sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=60, check=False, input=text,
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
    complaints, _, loaded = done.stderr.rpartition("LOADED ")
    return done.returncode, done.stdout, complaints, set(loaded.split())


def heavy(loaded: set[str]) -> list[str]:
    return sorted(name for name in loaded if name in HEAVY)


@pytest.mark.parametrize("tool", TOOLS)
def test_help_loads_neither_a_client_nor_a_broker(tool: str) -> None:
    code, shown, complaints, loaded = answer(tool, "--help")
    assert (code, complaints) == (0, "")
    assert shown.startswith(f"Usage: ottla {tool} ")
    assert heavy(loaded) == []
    others = {f"ottla.cli.{name.replace('-', '_')}" for name in COMMANDS if name != tool}
    assert not loaded & others or tool in ("dump-log", "verifiable-producer", "verifiable-consumer")


@pytest.mark.parametrize("tool", TOOLS)
def test_a_mistake_is_one_line_and_loads_neither(tool: str) -> None:
    code, shown, complaints, loaded = answer(tool, "--no-such-option")
    assert (code, shown) == (1, "")
    assert complaints.count("\n") == 1
    assert "--no-such-option" in complaints
    assert heavy(loaded) == []


@pytest.mark.parametrize("tool", TOOLS)
def test_every_option_of_kafkas_tool_is_there(tool: str) -> None:
    import importlib

    command = importlib.import_module(COMMANDS[tool][0]).command
    ours = {option for parameter in command.params for option in parameter.opts}
    theirs = set(json.loads(FACTS.read_text())[f"kafka-{tool}"]["options"]) - SHORTENED.get(tool, set())
    assert theirs - ours == set()


def test_the_examples_of_the_page_use_options_that_there_are() -> None:
    import importlib

    text = PAGE.read_text().replace("\\\n", " ")
    examples = re.findall(r"(?:^\$ |\| )ottla ([a-z-]+)([^\n|]*)", text, re.MULTILINE)
    assert {name for name, _ in examples} >= set(TOOLS) - {"dump-log"}
    for name, rest in examples:
        command = importlib.import_module(COMMANDS[name][0]).command
        words = shlex.split(rest)
        if name in GROUPS:
            command = command.commands[words[0]]
        known = {option for parameter in command.params for option in parameter.opts}
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= known, name


def test_all_of_the_everyday_tools_are_there() -> None:
    assert set(TOOLS) >= {
        "topics", "configs", "console-producer", "console-consumer", "consumer-groups", "get-offsets",
        "delete-records", "log-dirs", "producer-perf-test", "consumer-perf-test", "verifiable-producer",
        "verifiable-consumer",
    }  # fmt: skip


def test_the_list_of_commands_loads_none_of_them() -> None:
    code, shown, _, loaded = answer("--help")
    assert code == 0
    assert all(name in shown for name in COMMANDS)
    assert not loaded & {module for module, _ in COMMANDS.values()}
    assert heavy(loaded) == []


def test_an_unknown_command_gets_one_line_with_the_nearest() -> None:
    code, shown, complaints, loaded = answer("topic", "--list")
    assert (code, shown) == (1, "")
    assert complaints == "ottla: there is no command topic: did you mean `ottla topics`?\n"
    assert heavy(loaded) == []
    assert answer("zzz")[2] == "ottla: there is no command zzz: `ottla --help` lists what there is.\n"


def completed(words: Sequence[str]) -> tuple[list[str], set[str]]:
    """What bash would offer for the last word."""
    environment = {"_OTTLA_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(["ottla", *words]),
                   "COMP_CWORD": str(len(words))}  # fmt: skip
    code, shown, complaints, loaded = answer(environment=environment)
    assert (code, complaints) == (0, "")
    return [line.partition(",")[2] for line in shown.splitlines() if line], loaded


def test_commands_and_options_are_completed() -> None:
    found, loaded = completed(["con"])
    assert found == ["configs", "console-consumer", "console-producer", "consumer-groups", "consumer-perf-test"]
    assert heavy(loaded) == []
    assert completed(["topics", "--partit"])[0] == ["--partitions", "--partition-size-limit-per-response"]


def test_topics_and_groups_of_the_cluster_are_completed() -> None:
    from confluent_kafka import Consumer, TopicPartition

    with Cluster(topics={"orders": 1, "order-lines": 1, "bills": 1}) as cluster:
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("bills", 0, 0)], asynchronous=False)
        consumer.close()
        server = ["--bootstrap-server", cluster.bootstrap_servers]
        assert completed(["topics", *server, "--describe", "--topic", "ord"])[0] == ["order-lines", "orders"]
        assert completed(["consumer-groups", *server, "--describe", "--group", "b"])[0] == ["billing"]


def test_completion_is_silent_when_nobody_answers() -> None:
    assert completed(["topics", "--bootstrap-server", "127.0.0.1:1", "--topic", "x"])[0] == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_shell_is_given_its_lines(shell: str) -> None:
    code, shown, complaints, _ = answer("completion", shell)
    assert (code, complaints) == (0, "")
    assert "_OTTLA_COMPLETE" in shown


def test_a_broker_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text("default.api.timeout.ms=300\nrequest.timeout.ms=200\n")
    for arguments in (
        ["topics", "--list"],
        ["get-offsets"],
        ["log-dirs", "--describe"],
        ["consumer-groups", "--list", "--timeout", "300"],
    ):
        code, shown, complaints, _ = answer(
            *arguments, "--bootstrap-server", "127.0.0.1:1", "--command-config", str(settings)
        )
        told = (shown + complaints).strip()
        assert told
        assert "\n" not in told, told
        assert "Traceback" not in told
        assert code == (0 if arguments[0] == "consumer-groups" else 1), told


def test_a_broker_that_is_not_there_is_named_with_the_reason_and_without_waiting_for_a_time_out(tmp_path: Path) -> None:
    """The tools give the first contact five seconds; here none, so that the test need not wait for them."""
    settings = tmp_path / "client.properties"
    settings.write_text("bootstrap.connect.timeout.ms=0\n")
    for arguments in (
        ["topics", "--list"],
        ["console-producer", "--topic", "a"],
        ["console-consumer", "--topic", "a"],
    ):
        code, shown, complaints, _ = answer(
            *arguments, "--bootstrap-server", "127.0.0.1:1", "--command-config", str(settings), text="a line\n"
        )
        assert code == 1
        assert "no bootstrap broker could be reached: 127.0.0.1:1: connection refused" in shown + complaints
        assert "Traceback" not in shown + complaints


def test_a_broker_that_is_not_there_costs_a_tool_seconds_and_not_a_minute() -> None:
    """As nobody has set anything."""
    begun = time.monotonic()
    code, shown, complaints, _ = answer("topics", "--list", "--bootstrap-server", "127.0.0.1:1")
    assert time.monotonic() - begun < 30
    assert code == 1
    assert "no bootstrap broker could be reached: 127.0.0.1:1: connection refused" in shown + complaints
