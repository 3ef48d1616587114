"""What a node was doing when it died, read from its own stack: the kinds that a test counts."""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType, FrameType, TracebackType

# The innermost frame that is listed names the kind.
_BY_FUNCTION = {
    "LogAppender._write": "append",
    "Log.settle": "append",
    "Log.roll": "roll",
    "LogFlusher.flush": "flush",
    "SyncPlan.sync": "flush",
    "LogTrimmer.truncate_to": "truncate",
    "LogTrimmer.truncate_fully_and_start_at": "truncate",
    "LogTrimmer.delete_segments": "retention",
    "Log.close": "close",
    "LogManager.shutdown": "close",
    "LogManager._checkpoint_directory": "checkpoint",
    "CleanerCheckpoints._change": "checkpoint",
    "LogManager.create": "create topic",
    "Log.plan_settle": "create topic",
    "LogManager.delete": "delete topic",
    "Log.delete": "delete topic",
    "Chores.run_due": "file removal",
    "CleanerManager.step": "compaction",
    "swap_in": "swap",
    "LogManager.start": "load",
    "load_log": "load",
}

KINDS = sorted(set(_BY_FUNCTION.values()))


def kind_of_traceback(traceback: TracebackType | None) -> str:
    """The kind of the operation that raised."""
    codes = []
    while traceback is not None:
        codes.append(traceback.tb_frame.f_code)
        traceback = traceback.tb_next
    return _kind(reversed(codes))


def kind_of_stack(frame: FrameType | None) -> str:
    """The kind of the operation that is under way in this frame."""
    codes = []
    while frame is not None:
        codes.append(frame.f_code)
        frame = frame.f_back
    return _kind(codes)


def _kind(codes: Iterable[CodeType]) -> str:
    found = "between"
    for code in codes:
        if "/storage/" in code.co_filename:
            kind = _BY_FUNCTION.get(code.co_qualname)
            # A start flushes, rolls and checkpoints too: it is one of its own kind, from wherever it is seen.
            if kind is not None and (found == "between" or kind == "load"):
                found = kind
    return found
