"""What a node was doing when it died, read from its own stack: the kinds that a test counts."""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType, FrameType, TracebackType

# The innermost frame that is listed names the kind; a module's name stands for every function in it.
_BY_FUNCTION = {
    ("log.py", "roll"): "roll",
    ("log.py", "flush"): "flush",
    ("log.py", "truncate_to"): "truncate",
    ("log.py", "truncate_fully_and_start_at"): "truncate",
    ("log.py", "close"): "close",
    ("log.py", "delete"): "delete topic",
    ("log.py", "rename_directory"): "delete topic",
    ("log.py", "_append_batches"): "append",
    ("log.py", "delete_segments"): "retention",
    ("chores.py", "run"): "flush",
    ("chores.py", "run_due"): "file removal",
    ("log_manager.py", "_checkpoint_directory"): "checkpoint",
    ("log_manager.py", "create"): "create topic",
    ("log_manager.py", "delete"): "delete topic",
    ("log_manager.py", "shutdown"): "close",
    ("log_manager.py", "start"): "load",
    ("loader.py", "load"): "load",
    ("swap.py", "swap_in"): "swap",
    ("cleaner.py", "_clean_group"): "compaction",
    ("cleaner_manager.py", "step"): "compaction",
    ("cleaner_checkpoints.py", "_change"): "checkpoint",
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
            kind = _BY_FUNCTION.get((code.co_filename.rpartition("/")[2], code.co_name))
            # A start flushes, rolls and checkpoints too: it is one of its own kind, from wherever it is seen.
            if kind is not None and (found == "between" or kind == "load"):
                found = kind
    return found
