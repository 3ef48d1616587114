"""The examples of docs/clients/admin.md, run from top to bottom against a broker."""

from __future__ import annotations

import ast
import re
import time
from pathlib import Path

from ottla.client import Admin
from tests.clients.ours.admin_sides import RealSide, real

__all__ = ["real"]

PAGE = Path(__file__).parents[3] / "docs" / "clients" / "admin.md"
BLOCK = re.compile(r"^```python( kafka)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEARD_S = 0.05
"""A change is answered when the controller has made it, and the broker hears of it a moment later."""


def test_the_examples_work(real: RealSide) -> None:
    """Those marked `kafka` are of what Ottla does not serve yet."""
    text = PAGE.read_text(encoding="utf-8").replace("localhost:9092", real.server.address)
    names: dict[str, object] = {}
    count = 0
    for block in BLOCK.finditer(text):
        mark, code = block.groups()
        if mark and real.name != "kafka":
            continue
        run(code, text.count("\n", 0, block.start(2)), names)
        count += 1
    assert count == 13 + (real.name == "kafka")
    admin = names["admin"]
    assert isinstance(admin, Admin)
    assert {"orders", "payments", "clicks", "views"} <= set(admin.list_topics())
    admin.close()


def run(code: str, line: int, names: dict[str, object]) -> None:
    """Statement by statement; a failure names the line of the page."""
    for statement in ast.parse(code).body:
        ast.increment_lineno(statement, line)
        exec(compile(ast.Module([statement], []), str(PAGE), "exec"), names)
        if re.search(r"\b(create|alter|delete)_", ast.unparse(statement)):
            time.sleep(HEARD_S)
