"""A PostgreSQL of a test's own: a new database on a port of the loopback, run by a user without rights.

`running()` starts the server of Debian's package `postgresql`, whose programs are in /usr/lib/postgresql, and ends it;
it skips the test with the reason where they are missing. `DRIVER` is its driver on Maven Central.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients import eventually

DRIVER = ("org.postgresql", "postgresql", "42.7.8")
USER = "etl"
START_S = 60


def programs() -> Path:
    """The directory with `initdb` and `postgres`, of the newest version that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    if found:
        return found[-1].parent
    if on_path is not None:
        return Path(on_path).resolve().parent
    pytest.skip("needs PostgreSQL's server: Debian's package postgresql")


@contextmanager
def running(
    settings: Mapping[str, str] | None = None,
    *,
    access: Sequence[str] = (),
    files: Mapping[str, bytes] | None = None,
) -> Iterator[str]:
    """The address of a new database, `jdbc:postgresql://...`; `USER` needs no password there.

    `access` are lines of pg_hba.conf that go before those that let everybody in; `files` are put beside it.
    """
    there = programs()
    owner = pwd.getpwnam("nobody") if os.geteuid() == 0 else None  # PostgreSQL does not run as root
    home = Path(tempfile.mkdtemp(prefix="ottla-postgresql-"))
    as_owner: dict[str, Any] = {}
    if owner is not None:
        as_owner = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    try:
        if owner is not None:
            os.chown(home, owner.pw_uid, owner.pw_gid)
        command = [
            str(there / "initdb"),
            "-D",
            str(home / "data"),
            "-U",
            USER,
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "-N",
        ]
        made = subprocess.run(
            command, cwd=home, capture_output=True, text=True, timeout=START_S, check=False, **as_owner
        )
        assert made.returncode == 0, made.stderr
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        hba = home / "data" / "pg_hba.conf"
        hba.write_text("".join(f"{line}\n" for line in access) + hba.read_text())
        for name, content in (files or {}).items():
            path = home / "data" / name
            path.touch(0o600)
            path.write_bytes(content)
            if owner is not None:
                os.chown(path, owner.pw_uid, owner.pw_gid)
        all_settings = {
            "listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": "", "fsync": "off",
            "max_connections": "20", "shared_buffers": "16MB", **(settings or {}),
        }  # fmt: skip
        options = [option for name, value in all_settings.items() for option in ("-c", f"{name}={value}")]
        with open(home / "log", "wb") as log:
            server = subprocess.Popen(
                [str(there / "postgres"), "-D", str(home / "data"), *options],
                cwd=home,
                stdout=log,
                stderr=log,
                **as_owner,
            )
        try:
            eventually(lambda: _answers(there, port) or server.poll() is not None, "PostgreSQL answers", START_S)
            assert server.poll() is None, (home / "log").read_text()[-2000:]
            yield f"jdbc:postgresql://127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)  # ends connections too, for which SIGTERM would wait
            server.wait(START_S)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _answers(there: Path, port: int) -> bool:
    command = [str(there / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    return subprocess.run(command, timeout=START_S, check=False).returncode == 0
