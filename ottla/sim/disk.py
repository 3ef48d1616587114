"""A disk in memory that can lose power: an `ottla.world.Disk` for simulation and for crash tests.

It keeps the promises of `ottla/world/disk.py` and not one more: what was not synced may be gone after `crash`, in all
the ways that `content` (bytes) and `tree` (names) describe. `process_crash` is the milder death, as by kill -9: the
system lives on, so everything written is there.

Promises: the same seed and the same operations leave the same bytes, on every machine and in every process. After
`SimulatedCrash` every operation raises it again until `crash` or `process_crash`, so that no `finally` of the dying
node changes what the next one finds; an open file of the dead node raises it for ever. `close` and `release` alone
stay silent. An operation costs a few microseconds, whatever the size of the file, and no virtual time unless the disk
is slow (`slow_down`): then who runs the node asks with `take_time_us` how long its last operations took.

Single-threaded, like the simulator. Paths are rooted at `/`, which exists; there are no links and no permissions.
"""

from __future__ import annotations

import errno
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from random import Random

from ottla.sim.faults import Fault, FaultPlan, Kind, Moment, SimulatedCrash
from ottla.sim.tree import Change, DirNode, FileNode, Tree, failure
from ottla.types import Buffer
from ottla.world import Clock, Entry, Space

TRACE_MAX = 10_000
"""How many of the last operations are remembered."""
UNBOUNDED_BYTES = 1 << 40
"""The size that a disk without a limit says it has."""


class VirtualDisk:
    """One node's disk."""

    def __init__(self, chance: Random, clock: Clock, *, capacity_bytes: int | None = None) -> None:
        """`chance` is a seeded `random.Random`, drawn from only when something goes wrong."""
        self._chance = chance
        self._clock = clock
        self._tree = Tree(clock.now_ms())
        self._plan = FaultPlan()
        self._locked: set[FileNode] = set()
        self._life = 0
        self._trace: deque[tuple[int, str, str, object]] = deque(maxlen=TRACE_MAX)
        self._used_bytes = 0
        self.is_halted = False
        """Whether the node has died of a planned crash, or is being killed."""
        self.capacity_bytes = capacity_bytes
        """The room for all files together; a write that needs more does what fits and raises ENOSPC."""
        self.on_operation: Callable[[Kind, str], None] | None = None
        """Called at the start of every operation; what it raises, the operation raises, with nothing done.

        Raising `SimulatedCrash` kills the node: a way to die at the rename of one certain file.
        """
        self._failed: tuple[str, ...] = ()
        """The directories whose device is dead."""
        self._times_us: Mapping[Kind, tuple[int, int]] = {}
        self._slow_chance = chance
        self._spent_us = 0
        self._busy_until_us = 0
        self.operation_count = 0
        self.counts: Counter[Kind] = Counter()
        """How many operations of each kind were begun."""

    # What goes wrong.

    def fail_at(
        self, nth: int, error: int, *, kinds: Collection[Kind] | None = None, moment: Moment = "before"
    ) -> None:
        """Let the nth operation from now (of these kinds) raise the `OSError` of this errno.

        `during` a write, part of the data is written first. A `sync` that fails drops what it should have synced, as
        Linux does: see `content`.
        """
        self._plan.add(nth, kinds, error, moment)

    def crash_at(self, nth: int, *, kinds: Collection[Kind] | None = None, moment: Moment = "before") -> None:
        """Let the node die at the nth operation from now (of these kinds): it raises `SimulatedCrash`.

        `during` a write, part of it is done; `during` something atomic, it is done or it is not.
        """
        self._plan.add(nth, kinds, None, moment)

    def clear_faults(self) -> None:
        """Forget what is still planned."""
        self._plan.clear()

    def fail_directory(self, path: str) -> None:
        """Let the device of a directory die: whatever is asked of it, and of what is in it, is answered with EIO."""
        self._note("dead", path, "the device of this directory died")
        self._failed = (*self._failed, path.rstrip("/"))

    def lose_directory(self, path: str) -> None:
        """Replace the device of a directory by an empty one. The node must be dead: it would hold open files."""
        self._note("lost", path, "the device of this directory was replaced")
        self._failed = tuple(failed for failed in self._failed if failed != path.rstrip("/"))
        for inner in self._tree.inside(path)[:-1]:
            self._change(self._tree.unlinking(inner))
        self._tree.sync(self._tree.find_dir(path))

    def slow_down(self, times_us: Mapping[Kind, tuple[int, int]], chance: Random) -> None:
        """Let operations of these kinds take that long, each between two bounds. One is done after another."""
        self._times_us = dict(times_us)
        self._slow_chance = chance

    def mend(self) -> None:
        """Take all trouble away: planned faults, dead directories, too little room, slowness. What is lost stays so."""
        self.clear_faults()
        self.capacity_bytes = None
        self._failed = ()
        self._times_us = {}

    def take_time_us(self, now_us: int) -> int:
        """How long from now until the operations since the last call are done, behind what the device did before."""
        spent_us, self._spent_us = self._spent_us, 0
        if not spent_us:
            return 0
        self._busy_until_us = max(self._busy_until_us, now_us) + spent_us
        return self._busy_until_us - now_us

    def crash(self) -> None:
        """The power goes and comes back: what is left is what a new node finds."""
        self._note("crash", "/", "the power went")
        for change in self._tree.lose(self._chance):
            self._note("- name", "", change)
        for path, node in self._tree.files():
            lost = node.content.lose(self._chance)
            if lost:
                self._note("- content", path, lost)
            if node.modified_ms != node.synced_modified_ms and self._chance.randrange(2):
                node.modified_ms = node.synced_modified_ms
            node.synced_modified_ms = node.modified_ms
        self._begin_life()

    def halt(self) -> None:
        """Let every operation raise `SimulatedCrash` until `crash` or `process_crash`: the node is being killed."""
        self.is_halted = True

    def process_crash(self) -> None:
        """The process dies and the system lives on: everything written is there, synced or not."""
        self._note("crash", "/", "the process died")
        self._begin_life()

    @property
    def used_bytes(self) -> int:
        """The sizes of all files that have a name, together."""
        return self._used_bytes

    @property
    def sync_count(self) -> int:
        """How many syncs of files and directories were begun."""
        return self.counts["sync"] + self.counts["sync_dir"]

    # Looking at it from outside: no operation, never a fault, also while the node is dead.

    def peek(self, path: str) -> bytes:
        """The bytes of a file, as a node that read it now would see them."""
        return bytes(self._tree.find_file(path).content.seen)

    def peek_files(self, under: str = "/") -> Iterator[str]:
        """The paths of all files below a directory, sorted."""
        prefix = under.rstrip("/") + "/"
        return (path for path, _ in self._tree.files() if path.startswith(prefix))

    def trace(self, last: int = 100) -> str:
        """The last operations and what crashes did, one a line: what to print when a seed fails."""
        lines = []
        for number, kind, path, detail in list(self._trace)[-last:]:
            text = f"[{detail[0]}, {detail[1]})" if isinstance(detail, tuple) else str(detail)
            lines.append(f"{number:>7}  {kind:<12} {path} {text}".rstrip())
        return "\n".join(lines)

    # The promises of `ottla.world.Disk`.

    def open(self, path: str, *, create: bool = False, read_only: bool = False, may_rest: bool = False) -> VirtualFile:
        is_new = create and not read_only and not self._tree.knows(path)
        fault = self._begin("create" if is_new else "open", path)
        node = FileNode(self._clock.now_ms()) if is_new else self._tree.find_file(path)
        if is_new:
            self._change(self._tree.linking(path, node), fault)
        self._end(fault, path)
        return VirtualFile(self, node, path, is_read_only=read_only)

    def read(self, path: str) -> bytes:
        self._look("read", path)
        return bytes(self._tree.find_file(path).content.seen)

    def scan(self, path: str) -> list[Entry]:
        self._look("scan", path)
        return [
            Entry(name, False, len(node.content.seen), node.modified_ms)
            if isinstance(node, FileNode)
            else Entry(name, True, 0, node.modified_ms)
            for name, node in sorted(self._tree.find_dir(path).seen.items())
        ]

    def names(self, path: str) -> list[str]:
        self._look("scan", path)
        return sorted(self._tree.find_dir(path).seen)

    def exists(self, path: str) -> bool:
        self._look("stat", path)
        return self._tree.knows(path)

    def size(self, path: str) -> int:
        self._look("stat", path)
        node = self._tree.find(path)
        return len(node.content.seen) if isinstance(node, FileNode) else 0

    def modified_ms(self, path: str) -> int:
        self._look("stat", path)
        return self._tree.find(path).modified_ms

    def space(self, path: str) -> Space:
        self._look("stat", path)
        self._tree.find(path)
        total = UNBOUNDED_BYTES if self.capacity_bytes is None else self.capacity_bytes
        return Space(total, max(0, total - self._used_bytes))

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        fault = self._begin("set_modified", path, modified_ms)
        node = self._tree.find(path)
        if self._is_done(fault):
            node.modified_ms = modified_ms
        self._end(fault, path)

    def make_dirs(self, path: str) -> None:
        fault = self._begin("make_dirs", path)
        missing = self._tree.missing(path)
        for directory in missing[: self._part(fault, len(missing))]:
            self._change(self._tree.linking(directory, DirNode(self._clock.now_ms())))
        self._end(fault, path)

    def rename(self, old: str, new: str) -> None:
        fault = self._begin("rename", old, f"-> {new}")
        self._change(self._tree.renaming(old, new), fault)
        self._end(fault, old)

    def remove(self, path: str) -> None:
        fault = self._begin("remove", path)
        self._tree.find_file(path)
        self._change(self._tree.unlinking(path), fault)
        self._end(fault, path)

    def remove_tree(self, path: str) -> None:
        fault = self._begin("remove_tree", path)
        inside = self._tree.inside(path) if self._tree.knows(path) else []
        for inner in inside[: self._part(fault, len(inside))]:
            self._change(self._tree.unlinking(inner))
        self._end(fault, path)

    def sync_dir(self, path: str) -> None:
        fault = self._begin("sync_dir", path)
        directory = self._tree.find_dir(path)
        if self._is_done(fault):
            self._tree.sync(directory)
        self._end(fault, path)

    def lock(self, path: str) -> VirtualLock:
        fault = self._begin("lock", path)
        if not self._tree.knows(path):
            self._change(self._tree.linking(path, FileNode(self._clock.now_ms())))
        node = self._tree.find_file(path)
        if node in self._locked:
            raise BlockingIOError(errno.EAGAIN, "another process holds the lock", path)
        self._end(fault, path)
        self._locked.add(node)
        return VirtualLock(self._locked, node)

    # Every operation begins, does all or part of its work, and ends.

    def _begin(self, kind: Kind, path: str, detail: object = "") -> Fault | None:
        """Count and note an operation; raises what is due before it, returns what is due in or after it."""
        if self.is_halted:
            raise SimulatedCrash(f"the node is dead: no {kind} of {path}")
        self.operation_count += 1
        self.counts[kind] += 1
        self._trace.append((self.operation_count, kind, path, detail))
        if self.on_operation is not None:
            try:
                self.on_operation(kind, path)
            except SimulatedCrash:
                self.is_halted = True
                raise
        if self._times_us and kind in self._times_us:
            self._spent_us += self._slow_chance.randint(*self._times_us[kind])
        if self._failed and any(path == failed or path.startswith(f"{failed}/") for failed in self._failed):
            self._note("- fault", path, "EIO: its device is dead")
            raise failure(errno.EIO, path)
        if not self._plan:
            return None
        fault = self._plan.strike(kind)
        if fault is not None and fault.moment == "before":
            self._end(fault, path)
        return fault

    def _end(self, fault: Fault | None, path: str) -> None:
        """Raise what is due after an operation."""
        if fault is None:
            return
        if fault.error is not None:
            self._note("- fault", path, f"{errno.errorcode.get(fault.error, fault.error)} {fault.moment}")
            raise failure(fault.error, path)
        self._note("- fault", path, f"the node dies {fault.moment}")
        self.is_halted = True
        raise SimulatedCrash(f"the node dies {fault.moment} operation {self.operation_count} on {path}")

    def _look(self, kind: Kind, path: str) -> None:
        """Begin and end an operation that changes nothing."""
        self._end(self._begin(kind, path), path)

    def _is_done(self, fault: Fault | None) -> bool:
        """Whether an atomic operation takes place."""
        return fault is None or fault.moment == "after" or self._chance.randrange(2) == 1

    def _part(self, fault: Fault | None, size: int) -> int:
        """How much of an operation of `size` steps takes place."""
        return size if fault is None or fault.moment == "after" else self._chance.randrange(size + 1)

    def _change(self, change: Change | None, fault: Fault | None = None) -> None:
        """Make a change of names, unless the fault strikes first."""
        if change is None or not self._is_done(fault):
            return
        for node in self._tree.make(change, self._clock.now_ms()):
            node.is_named = False
            self._used_bytes -= len(node.content.seen)

    def _note(self, kind: str, path: str, detail: object) -> None:
        """Put a line into the trace that is no operation."""
        self._trace.append((self.operation_count, kind, path, detail))

    def _begin_life(self) -> None:
        self._life += 1
        self.is_halted = False
        self._locked = set()
        self._used_bytes = 0
        for _, node in self._tree.files():
            node.is_named = True
            self._used_bytes += len(node.content.seen)

    # What open files ask for.

    def _write(self, node: FileNode, path: str, position: int, data: bytes) -> None:
        fault = self._begin("write", path, (position, position + len(data)))
        if fault is not None:
            data = data[: self._part(fault, len(data))]
        growth = max(0, position + len(data) - len(node.content.seen)) if data else 0
        beyond = self._beyond(node, growth)
        if beyond:
            data = data[: max(0, len(data) - beyond)]
            growth = max(0, position + len(data) - len(node.content.seen)) if data else 0
        node.content.write(position, data)
        node.modified_ms = self._clock.now_ms()
        if node.is_named:
            self._used_bytes += growth
        self._end(fault, path)
        if beyond:
            raise failure(errno.ENOSPC, path)

    def _resize(self, kind: Kind, node: FileNode, path: str, size: int) -> None:
        fault = self._begin(kind, path, size)
        growth = size - len(node.content.seen)
        if kind == "allocate" and self._beyond(node, growth):
            raise failure(errno.ENOSPC, path)
        if self._is_done(fault):
            node.content.resize(size)
            node.modified_ms = self._clock.now_ms()
            if node.is_named:
                self._used_bytes += growth
        self._end(fault, path)

    def _beyond(self, node: FileNode, growth: int) -> int:
        """How many bytes of this growth the disk has no room for."""
        if self.capacity_bytes is None or growth <= 0 or not node.is_named:
            return 0
        return max(0, self._used_bytes + growth - max(self.capacity_bytes, self._used_bytes))

    def _sync(self, node: FileNode, path: str) -> None:
        try:
            fault = self._begin("sync", path)
        except OSError:
            node.content.fail_sync(self._chance)
            raise
        if fault is not None and fault.error is not None and fault.moment == "during":
            node.content.fail_sync(self._chance)
        elif self._is_done(fault):
            node.content.sync()
            node.synced_modified_ms = node.modified_ms
        self._end(fault, path)


class VirtualFile:
    """An open file of a `VirtualDisk`."""

    __slots__ = ("_disk", "_is_open", "_is_read_only", "_life", "_node", "path")

    def __init__(self, disk: VirtualDisk, node: FileNode, path: str, *, is_read_only: bool) -> None:
        self.path = path
        self._disk = disk
        self._node = node
        self._life = disk._life
        self._is_open = True
        self._is_read_only = is_read_only

    def read_at(self, position: int, size: int) -> bytes:
        self._check()
        self._disk._look("read", self.path)
        if position < 0 or size < 0:
            raise failure(errno.EINVAL, self.path)
        return self._node.content.read(position, size)

    def write_at(self, position: int, data: Buffer) -> None:
        self._check_writable(position)
        self._disk._write(self._node, self.path, position, bytes(data))

    def write_all_at(self, position: int, parts: Sequence[Buffer]) -> None:
        self._check_writable(position)
        self._disk._write(self._node, self.path, position, b"".join(parts))

    def size(self) -> int:
        self._check()
        self._disk._look("stat", self.path)
        return len(self._node.content.seen)

    def truncate(self, size: int) -> None:
        self._check_writable(size)
        self._disk._resize("truncate", self._node, self.path, size)

    def allocate(self, size: int) -> None:
        self._check_writable(size)
        self._disk._resize("allocate", self._node, self.path, max(size, len(self._node.content.seen)))

    def sync(self) -> None:
        self._check()
        self._disk._sync(self._node, self.path)

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a virtual file has no descriptor", self.path)

    def close(self) -> None:
        self._is_open = False

    def _check(self) -> None:
        if self._life != self._disk._life:
            raise SimulatedCrash(f"{self.path} was opened by a node that has died")
        if not self._is_open:
            raise failure(errno.EBADF, self.path)

    def _check_writable(self, position: int) -> None:
        self._check()
        if self._is_read_only:
            raise failure(errno.EBADF, self.path)
        if position < 0:
            raise failure(errno.EINVAL, self.path)


class VirtualLock:
    """A hold on a lock file of a `VirtualDisk`."""

    __slots__ = ("_held", "_node")

    def __init__(self, held: set[FileNode], node: FileNode) -> None:
        self._held = held
        self._node: FileNode | None = node

    def release(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            self._held.discard(node)  # after a crash this is the dead node's set, which nobody looks at
