"""The pages about the clients: every example runs, has types that hold, and no public call goes without one."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla.client
from ottla.testing import Cluster

DOCS = Path(__file__).parents[2] / "docs" / "clients"
PAGES = ["README.md", "producer.md", "consumer.md", "share.md", "columnar.md"]
SHOWN = {
    "producer.md": ["Producer", "AsyncProducer", "Delivery"],
    "consumer.md": ["Consumer", "AsyncConsumer"],
    "share.md": ["ShareConsumer", "AsyncShareConsumer"],
    "admin.md": ["Admin", "AsyncAdmin"],
}
"""Whose public methods a page shows, every one of them."""
ELSEWHERE = {"poll_arrow", "send_arrow", "topic"}
"""Shown in columnar.md."""
IMPLIED = {"count", "index", "close"}
"""A tuple's, and what `with` does."""
BLOCK = re.compile(r"^```python(?: kafka)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> Iterator[tuple[int, str]]:
    """Each example of a page, with the line it begins on."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        yield text.count("\n", 0, found.start(1)), found.group(1)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_work_from_top_to_bottom(page: str) -> None:
    names: dict[str, object] = {}
    with Cluster() as cluster:
        for line, code in blocks(page):
            tree = ast.parse(code.replace("localhost:9092", cluster.bootstrap_servers))
            ast.increment_lineno(tree, line)
            exec(compile(tree, str(DOCS / page), "exec"), names)
    assert names.keys() > {"__builtins__"}, "a page without examples shows nothing"


@pytest.mark.parametrize("page", SHOWN)
def test_every_public_call_has_an_example(page: str) -> None:
    used = {
        node.attr for _, code in blocks(page) for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Attribute)
    }
    for name in SHOWN[page]:
        public = {
            method
            for method, _ in inspect.getmembers(getattr(ottla.client, name))
            if not method.startswith("_") and method not in ELSEWHERE and method not in IMPLIED
        }
        assert not public - used, f"{page} shows nothing of {name}.{sorted(public - used)}"


def test_the_examples_pass_the_strictest_type_check(tmp_path: Path) -> None:
    files = []
    for page in [*(DOCS / name for name in [*PAGES, "admin.md"]), DOCS.parent / "testing" / "simulation.md"]:
        text = page.read_text(encoding="utf-8")
        code = "\n".join(found.group(1) for found in BLOCK.finditer(text))
        files.append(tmp_path / f"example_{page.stem.lower()}.py")
        files[-1].write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"),
         # A page tells a story, and a name may come back in it as something else.
         "--allow-redefinition", *map(str, files)],
        capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
