"""kcat, Debian's package: found, or installed once where this user may, or the test is skipped with the reason."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache

import pytest

from tests.support.maven import cache_dir


@cache
def kcat_path() -> str:
    found = shutil.which("kcat")
    if found is not None:
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        pytest.skip("needs `kcat`, and this user cannot install packages with apt-get")
    cache_dir().mkdir(parents=True, exist_ok=True)
    with open(cache_dir() / ".kcat-lock", "w") as lock:  # xdist workers and concurrent runs install once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if shutil.which("kcat") is None:
            command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "kcat"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
            if done.returncode != 0:
                lines = done.stderr.strip().splitlines() or ["no output"]
                pytest.skip(f"apt-get could not install kcat: {lines[-1]}")
    found = shutil.which("kcat")
    assert found is not None, "apt-get said that kcat is installed"
    return found


def run_kcat(
    arguments: Sequence[str], *, stdin: bytes = b"", timeout: float = 60
) -> subprocess.CompletedProcess[bytes]:
    """Run kcat to its end; the exit code is the caller's to check."""
    return subprocess.run(
        [kcat_path(), *arguments], input=stdin, capture_output=True, timeout=timeout, check=False
    )  # fmt: skip
