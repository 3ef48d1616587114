"""The cause of a failure, in one line, out of all that Spark says.

Spark wraps what went wrong several times: a Python traceback inside a Java exception inside another Python traceback,
and then the query's plan. `reason` looks for the innermost error that says something. Nothing here imports Spark.
Called by `runner`, `sources` and `transforms`.
"""

from __future__ import annotations

import re

LENGTH_MAX = 600

_BAD_RECORD = re.compile(r"BAD_RECORD (?!, )(.*)")  # a comma follows in a plan, which shows the expression that raises
_DIED = re.compile(r"Python worker exited unexpectedly")
_LOST = re.compile(r"ExecutorLostFailure \(executor (\S+) exited[^)]*\) Reason: (.*)")
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+)')
_OURS = re.compile(
    r"[/\\](?:site-packages|dist-packages|lib[/\\]python[\d.]+|ottla[/\\](?:pipelines|client|world))[/\\]|<"
)
"""Frames that tell a user nothing: libraries, and Ottla itself."""
_RAISED = re.compile(r"(?:Caused by: |: )?(?P<name>(?:[\w$]+\.)*[\w$]*[A-Z][\w$]*)(?:: (?P<said>.*))?$")
"""`java.io.IOException: mkdir failed`, `ottla.errors.NetworkException: ...`, `ValueError: ...`."""
_SENT = re.compile(r".*/ottla-functions-\w+\.zip/(?:ottla_pipeline_)?(.+?)(?:_[0-9a-f]{12})?\.py")
"""A file that `functions` has sent to the workers, and the name that it had."""
_TASK = re.compile(r"Job aborted due to stage failure: .*?\(TID \d+\) \([^)]*\): ")
_WRAPPER = re.compile(
    r"\[(TASK_WRITE_FAILED|FAILED_EXECUTE_UDF|STREAM_FAILED)[.\w]*\]|Writing job aborted|Job aborted"
    r"|Exception thrown in awaitResult"
)
"""Java errors that only say that there is a cause."""
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+$")
_STACK = re.compile(r"\s+at |\s+\.\.\. \d+ more|Driver stacktrace:")


def reason(text: str) -> str:
    """The line that says why."""
    text = text.partition("=== Streaming Query ===")[0]  # what follows is the plan, with our own words in it
    bad = _BAD_RECORD.search(text)
    if bad:
        return _line(_SQLSTATE.sub("", bad[1]))
    lost = _LOST.search(text)
    if lost:
        return _line(f"Spark lost executor {lost[1]}: {lost[2]}")
    if _DIED.search(text):
        return (
            "a Python worker of Spark died: a function ended or crashed its process, or the machine ran out of memory"
        )
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return "Spark did not say why"
    return _of_traceback(lines) or _of_java(lines)


def _of_traceback(lines: list[str]) -> str | None:
    """What the innermost Python traceback ends with, and where in the user's code; None where there is none."""
    starts = [index for index, line in enumerate(lines) if _TRACEBACK in line]
    if not starts:
        return None
    place = ""
    for index, line in enumerate(lines[starts[-1] + 1 :], starts[-1] + 1):
        frame = _FRAME.match(line)
        if frame and not _OURS.search(frame["file"]):
            file = _SENT.sub(r"\1.py", frame["file"])
            place = f" ({file}:{frame['line']})"
        if line.startswith(" "):
            continue
        if line.startswith("py4j.protocol.Py4JJavaError: "):
            return _of_java(lines[index + 1 :])
        return _line(_shortened(_message(lines[index:])) + place)
    return None


def _of_java(lines: list[str]) -> str:
    """The first error, unless it only says that there is a cause: then the innermost cause that says something."""
    first = _TASK.sub("", _message(lines))
    if _WRAPPER.search(first):
        for index in reversed(range(1, len(lines))):
            found = _RAISED.match(lines[index]) if lines[index].startswith("Caused by: ") else None
            if found and found["said"]:
                return _line(_shortened(_message(lines[index:])))
    return _line(_shortened(first))


def _message(lines: list[str]) -> str:
    """An error's own words up to its stack: a line of Spark's, and of others as many as there are."""
    said = [lines[0]]
    for line in () if lines[0].startswith("[") else lines[1:]:
        if _STACK.match(line) or line.startswith(("Caused by: ", "== SQL", "During handling", "The above exception")):
            break
        said.append(line.strip())
    return _SQLSTATE.sub("", " ".join(part.strip() for part in said))


def _shortened(text: str) -> str:
    """Without the package of an error's class, and without the class where it is our own or Spark's, and says all."""
    found = _RAISED.match(text)
    if found is None or not found["said"]:
        return text
    if found["name"].startswith(("ottla.pipelines.", "org.apache.spark.", "pyspark.errors.")):
        return found["said"]
    return f"{found['name'].rpartition('.')[2]}: {found['said']}"


def _line(text: str) -> str:
    whole = " ".join(text.split())
    return whole if len(whole) <= LENGTH_MAX else f"{whole[: LENGTH_MAX - 3]}..."
