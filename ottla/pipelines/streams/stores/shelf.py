"""Files by their SHA-256, each kept once.

Promises: a file is there as a whole or not at all; what is given back was compared with its sum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ottla.pipelines.durable import write_beside
from ottla.pipelines.errors import PipelineError


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a checkpoint: where it was, and what it is."""

    path: str
    size: int
    sha256: str
    modified_ns: int


class Shelf:
    """The files of all snapshots, by their sums."""

    def __init__(self, directory: Path, *, trusting: bool) -> None:
        self.directory = directory
        self.new_bytes = 0
        self._trusting = trusting

    def take(self, root: Path, path: Path, known: Mapping[str, StoredFile]) -> StoredFile:
        """Copy a file in, unless it is here."""
        relative = path.relative_to(root).as_posix()
        status = path.stat()
        before = known.get(relative)
        if before is not None and (before.size, before.modified_ns) == (status.st_size, status.st_mtime_ns):
            return before
        data = path.read_bytes()
        return StoredFile(relative, len(data), self.put(data), status.st_mtime_ns)

    def put(self, data: bytes) -> str:
        """Keep bytes; their sum."""
        digest = hashlib.sha256(data).hexdigest()
        place = self._place(digest)
        is_kept = place.exists() if self._trusting else not self.fault(digest, len(data))
        if not is_kept:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_beside(place, data)
            self.new_bytes += len(data)
        return digest

    def get(self, digest: str, size: int) -> bytes:
        """Bytes by their sum, compared with it."""
        reason = self.fault(digest, size)
        if reason:
            raise PipelineError(f"The snapshot cannot be restored: {self._place(digest)} is {reason}")
        return self._place(digest).read_bytes()

    def give(self, file: StoredFile, target: Path) -> None:
        """Copy a file out, compared with its sum."""
        data = self.get(file.sha256, file.size)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def fault(self, digest: str, size: int) -> str:
        """Why a file cannot be used; empty when it can."""
        place = self._place(digest)
        if not place.exists():
            return "missing"
        if place.stat().st_size != size or _digest(place) != digest:
            return "damaged"
        return ""

    def delete_others(self, wanted: set[str]) -> int:
        """Delete all files but these; how many bytes that freed."""
        freed = 0
        for path in self.directory.glob("files/*/*"):
            if path.name not in wanted:
                freed += path.stat().st_size
                path.unlink()
        return freed

    def _place(self, digest: str) -> Path:
        return self.directory / "files" / digest[:2] / digest


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
