"""Opening the logs of a node off its loop: the directories beside each other, several logs of each at a time.

Recovery after a crash waits for the device and decompresses, for minutes where there is much to read; meanwhile the
loop answers the quorum and beats. Called by the replica manager.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.storage import DirectoryLoading
from ottla.world import Tasks


async def load_logs(tasks: Tasks, loadings: Sequence[DirectoryLoading], *, threads_per_directory: int) -> None:
    """Return when everything is open, or as much as could be: a directory's failure is its own to tell."""
    running = [
        tasks.spawn(_load(tasks, one, threads_per_directory), f"loading {one.directory.path}") for one in loadings
    ]
    try:
        for one in running:
            await one
    except BaseException:
        for task in running:
            task.cancel()
        for loading in loadings:
            loading.close()
        raise


async def _load(tasks: Tasks, loading: DirectoryLoading, thread_count: int) -> None:
    await tasks.in_thread(loading.plan)
    name = f"loading {loading.directory.path}"
    helpers = [tasks.spawn(_open_logs(tasks, loading), name) for _ in range(max(thread_count, 1) - 1)]
    await _open_logs(tasks, loading)
    for helper in helpers:
        await helper


async def _open_logs(tasks: Tasks, loading: DirectoryLoading) -> None:
    while await tasks.in_thread(loading.open_some):
        pass
