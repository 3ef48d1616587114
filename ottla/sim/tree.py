"""The names of a virtual disk: directories as the node sees them, as the device holds them, and the journal between.

The model, after a journalled file system whose journal is cut off by a power loss:

- A change of names (create, make a directory, rename, remove) is one transaction: it has happened or it has not. A
  rename between two directories is one change of both.
- In each directory the changes arrive in order: one that arrived implies all earlier ones of that directory. Between
  directories there is no order, save what keeps moved files from getting lost: the removal of a directory implies all
  that happened in it, and a rename into another directory implies that directory.
- `sync` of a directory makes its changes durable, with those that they imply. It does not make the directory's own
  name durable, which is a change of its parent; and syncing a file does not make the file's name durable. ext4 would
  do both; POSIX promises neither.
- Names and contents are independent: a rename may arrive before the bytes of the file that it renames.

A change is asked for in two steps, so that the disk can stop between them: `linking`, `unlinking` and `renaming` check
and return it, `make` makes it.

Called by `disk`; knows nothing of faults, handles or time.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from ottla.sim.content import Content, point


class FileNode:
    """A file, under whatever name."""

    __slots__ = ("content", "is_named", "modified_ms", "synced_modified_ms")

    def __init__(self, modified_ms: int) -> None:
        self.content = Content()
        self.modified_ms = modified_ms
        self.synced_modified_ms = modified_ms
        self.is_named = True


class DirNode:
    """A directory: the names that the node sees, and those on the device."""

    __slots__ = ("device", "modified_ms", "seen")

    def __init__(self, modified_ms: int) -> None:
        self.seen: dict[str, Node] = {}
        self.device: dict[str, Node] = {}
        self.modified_ms = modified_ms


Node = FileNode | DirNode

Edit = tuple[DirNode, str, Node | None]
"""In that directory that name now means that node, or nothing."""


class Change(NamedTuple):
    """Edits that happen together (a rename is two), and the directories in whose order they stand."""

    edits: tuple[Edit, ...]
    ordered_in: list[DirNode]


class Tree:
    """All names under `/`."""

    __slots__ = ("_journal", "root")

    def __init__(self, modified_ms: int) -> None:
        self.root = DirNode(modified_ms)
        self._journal: list[Change] = []

    def find(self, path: str) -> Node:
        """The node of a path; `FileNotFoundError` where there is none."""
        node: Node = self.root
        for name in _names(path):
            if isinstance(node, FileNode):
                raise failure(errno.ENOTDIR, path)
            found = node.seen.get(name)
            if found is None:
                raise failure(errno.ENOENT, path)
            node = found
        return node

    def find_file(self, path: str) -> FileNode:
        node = self.find(path)
        if isinstance(node, DirNode):
            raise failure(errno.EISDIR, path)
        return node

    def find_dir(self, path: str) -> DirNode:
        node = self.find(path)
        if isinstance(node, FileNode):
            raise failure(errno.ENOTDIR, path)
        return node

    def knows(self, path: str) -> bool:
        """Whether the path leads anywhere."""
        try:
            self.find(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def missing(self, path: str) -> list[str]:
        """The directories that a path lacks, from the top; `FileExistsError` where it ends in a file."""
        missing = []
        names = _names(path)
        node: Node | None = self.root
        for depth, name in enumerate(names, 1):
            if isinstance(node, DirNode):
                node = node.seen.get(name)
                if isinstance(node, FileNode):
                    raise failure(errno.EEXIST if depth == len(names) else errno.ENOTDIR, path)
            if node is None:
                missing.append("/" + "/".join(names[:depth]))
        return missing

    def inside(self, path: str) -> list[str]:
        """A directory and all that is in it, sorted, contents before their directory."""
        found = []
        for name, node in sorted(self.find_dir(path).seen.items()):
            inner = f"{path}/{name}"
            found += self.inside(inner) if isinstance(node, DirNode) else [inner]
        return [*found, path]

    def linking(self, path: str, node: Node) -> Change:
        """The change that gives a node this name."""
        directory, name, _ = self._place(path)
        return Change(((directory, name, node),), [directory])

    def unlinking(self, path: str) -> Change:
        """The change that takes this name away."""
        directory, name, _ = self._place(path)
        node = directory.seen[name]
        return Change(((directory, name, None),), [directory, node] if isinstance(node, DirNode) else [directory])

    def renaming(self, old: str, new: str) -> Change | None:
        """The change of a rename, none where both names mean the same; `OSError` where POSIX refuses it."""
        node = self.find(old)
        source, old_name, _ = self._place(old)
        target, new_name, above = self._place(new)
        replaced = target.seen.get(new_name)
        if replaced is node:
            return None
        if isinstance(node, DirNode):
            if node in above:
                raise failure(errno.EINVAL, new)
            if isinstance(replaced, FileNode):
                raise failure(errno.ENOTDIR, new)
            if replaced is not None and replaced.seen:
                raise failure(errno.ENOTEMPTY, new)
        elif isinstance(replaced, DirNode):
            raise failure(errno.EISDIR, new)
        order = (
            [source] if target is source else [source, *(directory for directory in above if directory is not source)]
        )
        return Change(((source, old_name, None), (target, new_name, node)), order)

    def _place(self, path: str) -> tuple[DirNode, str, list[DirNode]]:
        """The directory that would hold this path, the name in it, and all directories on the way."""
        names = _names(path)
        if not names:
            raise failure(errno.EBUSY, path)
        above = [self.root]
        for name in names[:-1]:
            node = above[-1].seen.get(name)
            if node is None:
                raise failure(errno.ENOENT, path)
            if isinstance(node, FileNode):
                raise failure(errno.ENOTDIR, path)
            above.append(node)
        return above[-1], names[-1], above

    def make(self, change: Change, modified_ms: int) -> list[FileNode]:
        """Make a change in sight, and on the device when the journal gets there.

        Returns the files that lost their name.
        """
        gone = []
        kept = [node for _, _, node in change.edits]
        for directory, name, node in change.edits:
            before = directory.seen.get(name)
            if isinstance(before, FileNode) and before not in kept:
                gone.append(before)
            if node is None:
                del directory.seen[name]
            else:
                directory.seen[name] = node
            directory.modified_ms = modified_ms
        self._journal.append(change)
        return gone

    def sync(self, directory: DirNode) -> None:
        """Bring to the device all changes of this directory and those that they imply."""
        implied = [directory]
        due, rest = [], []
        for change in reversed(self._journal):
            if any(ordered in implied for ordered in change.ordered_in):
                implied += [ordered for ordered in change.ordered_in if ordered not in implied]
                due.append(change)
            else:
                rest.append(change)
        for change in reversed(due):
            _bring(change)
        self._journal = rest[::-1]

    def lose(self, chance: Random) -> list[str]:
        """The power goes: the names on the device are now all there are, the unsynced ones up to some point of each
        directory. Says what happened to every pending change."""
        left: dict[DirNode, int] = {}
        for change in self._journal:
            for directory in change.ordered_in:
                left[directory] = left.get(directory, 0) + 1
        for directory, count in left.items():
            left[directory] = point(chance, count)
        told = []
        for change in self._journal:
            has_arrived = all(left[directory] > 0 for directory in change.ordered_in)
            for directory in change.ordered_in:
                # What comes after a change that did not arrive does not arrive either.
                left[directory] = left[directory] - 1 if has_arrived else 0
            if has_arrived:
                _bring(change)
            told.append(f"{'arrived' if has_arrived else 'lost'}: {_describe(change)}")
        self._journal.clear()
        for directory in _directories(self.root):
            directory.seen = dict(directory.device)
        return told

    def files(self) -> Iterator[tuple[str, FileNode]]:
        """Every file in sight with its path, sorted."""
        waiting: list[tuple[str, Node]] = [("", self.root)]
        while waiting:
            path, node = waiting.pop()
            if isinstance(node, FileNode):
                yield path, node
            else:
                waiting += [(f"{path}/{name}", node.seen[name]) for name in sorted(node.seen, reverse=True)]


_MESSAGES = {
    errno.ENOENT: "no such file or directory",
    errno.EEXIST: "the file exists",
    errno.ENOTDIR: "not a directory",
    errno.EISDIR: "is a directory",
    errno.ENOTEMPTY: "the directory is not empty",
    errno.EINVAL: "invalid argument",
    errno.EBUSY: "device or resource busy",
    errno.EBADF: "bad file descriptor",
    errno.ENOSPC: "no space left on device",
    errno.EIO: "input/output error",
}


def failure(code: int, path: str) -> OSError:
    """The `OSError` of that errno; Python makes it the subclass that belongs to it."""
    return OSError(code, _MESSAGES.get(code) or errno.errorcode.get(code, "unknown error"), path)


def _names(path: str) -> list[str]:
    if not path:
        raise failure(errno.ENOENT, path)
    names = [name for name in path.split("/") if name and name != "."]
    assert ".." not in names, f"{path}: the virtual disk does not climb; nothing in Ottla builds such a path"
    return names


def _bring(change: Change) -> None:
    """Make a change on the device."""
    for directory, name, node in change.edits:
        if node is None:
            del directory.device[name]
        else:
            directory.device[name] = node


def _directories(root: DirNode) -> Iterator[DirNode]:
    """Every directory that the device leads to."""
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        yield directory
        waiting += [node for node in directory.device.values() if isinstance(node, DirNode)]


def _describe(change: Change) -> str:
    return " and ".join(f"{'-' if node is None else '+'}{name}" for _, name, node in change.edits)
