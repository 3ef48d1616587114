"""docs/testing.md: what it shows works."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from ottla.testing import Cluster

PAGE = Path(__file__).parent.parent.parent / "docs" / "testing.md"


def test_the_examples_of_the_page_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 6
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["Cluster"] is Cluster


def test_a_project_without_python_gets_a_broker_from_the_command_line(tmp_path: Path) -> None:
    ready = tmp_path / "ready.txt"
    command = [sys.executable, "-m", "ottla.cli.main", "up", "--ephemeral", "--port", "0", "--ready-file", str(ready),
               "--topic", "orders:3"]  # fmt: skip
    environment = {"TMPDIR": str(tmp_path), "PATH": ""}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as broker:
        deadline = time.monotonic() + 20
        while not ready.exists():
            assert time.monotonic() < deadline
            assert broker.poll() is None
            time.sleep(0.01)
        address = ready.read_text()
        assert re.fullmatch(r"127\.0\.0\.1:\d+\n", address), "whole, as soon as it is there"
        assert broker.stdout is not None
        assert broker.stdout.readline() == f"ottla is ready at {address}"
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(20) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["ready.txt"]
