"""`python -m ottla.testing.child`: a node under test in a process of its own, told what to do over its standard input.

The first line of the input is JSON: the `Orders`, how far the clock is ahead, and the directory of the whole cluster.
The first line of the output is JSON: the port, or why there is none. Then each line in is a command with its arguments,
each line out its answer. When the input ends without a word the test is gone, however it went: the node ends too, and
removes the cluster's directory, because nobody else is left who could. Started by `process`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from typing import Any

from ottla.testing.host import Host, Orders
from ottla.world.threads import running_world

STOP = "stop"


def main() -> None:
    from ottla.world.system_loop import new_loop

    with asyncio.Runner(loop_factory=new_loop) as runner:
        # Ctrl-C is for the test, which then closes the input; only a signal for this very process ends it so.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        runner.run(_serve())


async def _serve() -> None:
    lines = Lines(sys.stdin.fileno())
    told = json.loads(await lines.next())
    ahead_ms, directory = told.pop("ahead_ms"), told.pop("directory")
    try:
        host = Host(Orders(**told), running_world(), ahead_ms)
        await host.start()
    except Exception as error:  # noqa: BLE001  the parent raises it again
        _say({"error": str(error)})
        return
    _say({"port": host.port})
    while (line := await lines.next()) and line != STOP:
        name, *arguments = json.loads(line)
        try:
            _say({"answer": await host.command(name, arguments)})
        except Exception as error:  # noqa: BLE001  the parent raises it again
            _say({"error": str(error)})
    if line == STOP:
        await host.stop()
        _say({"answer": None})
    else:
        shutil.rmtree(directory, ignore_errors=True)


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


class Lines:
    """Lines from a pipe, without a thread that could not be ended."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._data = b""
        self._has_ended = False

    async def next(self) -> str:
        """The next line; empty when there will be none."""
        loop = asyncio.get_running_loop()
        while b"\n" not in self._data and not self._has_ended:
            ready = asyncio.Event()
            loop.add_reader(self._fd, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(self._fd)
            data = os.read(self._fd, 65536)
            self._has_ended = not data
            self._data += data
        line, _, self._data = self._data.partition(b"\n")
        return line.decode()


if __name__ == "__main__":
    main()
