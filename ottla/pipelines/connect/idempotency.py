"""Idempotency keys of HTTP in: which bodies have been taken, so that one that is sent again is not taken twice.

    <spool>/_keys    a line of JSON for each file of records: its name, and the keys of the bodies in it

The line is the moment at which a body is taken: before it, the file of records is on the disk and nobody reads it;
after it, the file is published, by the next start if need be. Promises: a key that was noted is found again after any
crash, until `keys_max` others have been noted after it; the journal is rewritten before it has twice as many. Called by
`http_in`, whose spool has one writer.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.pipelines.durable import write_beside
from ottla.pipelines.errors import PipelineError

KEY = re.compile(r"[\x21-\x7e]{1,255}")
"""Letters, digits and signs of ASCII, as a UUID has them."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A body that was taken."""

    digest: str
    """By which another body under the same key is told apart."""
    records: int


def digest_of(lines: Sequence[bytes]) -> str:
    found = hashlib.sha256()
    for line in lines:
        found.update(b"%d:" % len(line))
        found.update(line)
    return found.hexdigest()[:32]


class KeyJournal:
    """The keys, in memory and on the disk."""

    def __init__(self, path: Path, keys_max: int) -> None:
        self._path = path
        self._keys_max = keys_max
        self._taken: OrderedDict[str, Taken] = OrderedDict()
        self._noted_count = 0
        self._size = 0
        self.files: set[str] = set()
        """The files of records that were noted since the journal was last rewritten."""
        self._load()

    def get(self, key: str) -> Taken | None:
        return self._taken.get(key)

    def note(self, file: str, bodies: Mapping[str, Taken]) -> None:
        """The bodies in a file of records are taken when this returns. An `OSError` leaves the journal as it was."""
        if self._noted_count + len(bodies) > 2 * self._keys_max:
            self._rewrite()
        line = json.dumps([file, [[key, one.digest, one.records] for key, one in bodies.items()]]).encode() + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, self._size)  # an earlier line may have failed half-way
            written = os.pwrite(descriptor, line, self._size)
            if written != len(line):
                raise OSError(errno.EIO, f"{written} of {len(line)} bytes were written")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._size += len(line)
        self.files.add(file)
        self._remember(bodies)

    def _remember(self, bodies: Mapping[str, Taken]) -> None:
        self._noted_count += len(bodies)
        for key, one in bodies.items():
            self._taken.pop(key, None)
            self._taken[key] = one
        while len(self._taken) > self._keys_max:
            self._taken.popitem(last=False)

    def _load(self) -> None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            write_beside(self._path, b"")  # its name is on the disk before the first key is
            return
        whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                file, keys = json.loads(line)
                bodies = {str(key): Taken(str(digest), int(records)) for key, digest, records in keys}
            except (ValueError, TypeError):
                raise PipelineError(f"{self._path} is damaged in line {number}") from None
            self.files.add(str(file))
            self._remember(bodies)
        self._size = whole
        if whole != len(data):  # a run was killed while it wrote this: nobody had an answer
            with open(self._path, "r+b") as file_:
                file_.truncate(whole)
                os.fsync(file_.fileno())

    def _rewrite(self) -> None:
        keys = [[key, one.digest, one.records] for key, one in self._taken.items()]
        data = json.dumps(["", keys]).encode() + b"\n"
        write_beside(self._path, data)
        self._size = len(data)
        self.files.clear()
        self._noted_count = len(keys)
