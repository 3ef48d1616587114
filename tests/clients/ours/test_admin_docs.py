"""The examples of docs/clients/admin.md, run from top to bottom against a broker."""

from __future__ import annotations

import ast
import re
from itertools import count
from pathlib import Path

from ottla.client import Admin, AlterConfigOp, ConfigResource
from tests.clients.ours.admin_sides import RealSide, real
from tests.support.clients import eventually

__all__ = ["real"]

PAGE = Path(__file__).parents[3] / "docs" / "clients" / "admin.md"
BLOCK = re.compile(r"^```python( kafka)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = ConfigResource.group("heard-by-the-broker")
MARK_SETTING = "consumer.session.timeout.ms"
marks = count(45_000)


def test_the_examples_work(real: RealSide) -> None:
    """Those marked `kafka` are of what Ottla does not serve yet."""
    text = PAGE.read_text(encoding="utf-8").replace("localhost:9092", real.server.address)
    names: dict[str, object] = {}
    block_count = 0
    for block in BLOCK.finditer(text):
        mark, code = block.groups()
        if mark and real.name != "kafka":
            continue
        run(code, text.count("\n", 0, block.start(2)), names, real)
        block_count += 1
    assert block_count == 13 + (real.name == "kafka")
    admin = names["admin"]
    assert isinstance(admin, Admin)
    assert {"orders", "payments", "clicks", "views"} <= set(admin.list_topics())
    admin.close()


def run(code: str, line: int, names: dict[str, object], real: RealSide) -> None:
    """Statement by statement; a failure names the line of the page."""
    for statement in ast.parse(code).body:
        ast.increment_lineno(statement, line)
        exec(compile(ast.Module([statement], []), str(PAGE), "exec"), names)
        if re.search(r"\b(create|alter|delete)_", ast.unparse(statement)):
            catch_up(real)


def catch_up(real: RealSide) -> None:
    """Wait until the broker has taken over what the controller has answered for: it hears of it a moment later.

    The broker applies the metadata log in order, so whoever shows a mark that was made later has heard of all before
    it. Twice: a broker shows a setting before it has done the rest of the same step, such as beginning to lead.
    """
    for _ in range(2):
        mark = str(next(marks))
        real.admin.incremental_alter_configs({MARK: [AlterConfigOp.set(MARK_SETTING, mark)]}).all()
        eventually(
            lambda mark=mark: real.admin.describe_configs([MARK]).all()[MARK][MARK_SETTING].value == mark,  # type: ignore[misc]
            "the broker has heard of all changes",
        )
