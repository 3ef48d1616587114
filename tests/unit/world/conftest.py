"""The disks that are held to the contract of `ottla/world/disk.py`, each with an empty directory to work in."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ottla.sim import VirtualClock, VirtualDisk
from ottla.world import Disk
from ottla.world.system import SystemDisk


@pytest.fixture(params=["system", "virtual"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def disk(kind: str) -> Disk:
    return SystemDisk() if kind == "system" else VirtualDisk(Random(1), VirtualClock())


@pytest.fixture
def root(kind: str, disk: Disk, tmp_path: Path) -> str:
    path = str(tmp_path) if kind == "system" else "/data/logs"
    disk.make_dirs(path)
    return path
