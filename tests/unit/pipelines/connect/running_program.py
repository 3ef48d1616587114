"""What a pipeline is to others while it runs, without Spark: it holds the lock, says how it does, and stops when asked.

`python running_program.py FILE` does what the file's `spark: {program: ...}` says: `run` until it is asked to stop,
`end`, or `fail`; `crash` ends before it has come to its lock.
"""

from __future__ import annotations

import os
import sys
import time

from ottla.pipelines.connect.spec import load
from ottla.pipelines.connect.state import Home, State


def main(file: str) -> int:
    pipeline = load(file)
    program = pipeline.spark["program"]
    if program == "crash":
        print("cannot begin")
        return 1
    home = Home(pipeline.name)
    with home.running():
        state = State(pipeline.name, file, os.getpid(), time.time(), status="running")
        home.write(state)
        if program == "fail":
            state.status, state.error = "failed", "the disk is full"
            home.failure.write_text("Traceback: the disk is full")
        else:
            while program == "run" and not home.is_asked_to_stop:
                time.sleep(0.02)
            state.status = "done" if program == "end" else "stopped"
        home.write(state)
    return 1 if state.status == "failed" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
