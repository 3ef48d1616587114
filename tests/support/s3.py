"""An S3 that moto serves on loopback, and what Spark needs to reach one.

moto stands in a virtual environment of its own, because it wants half a hundred packages, and Hadoop's S3A is a jar of
Maven Central with one of 700 MB beside it. Both are fetched once into the cache outside the repository; a test is
skipped with the reason where they cannot be. Called by the tests of pipelines.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.clients import eventually
from tests.support.maven import cache_dir, jars

MOTO = "5.2.5"
FETCH_S = 600
SETTINGS = {
    "spark.hadoop.fs.s3a.access.key": "test",
    "spark.hadoop.fs.s3a.secret.key": "test",
    "spark.hadoop.fs.s3a.path.style.access": "true",
    "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
}
"""How Spark reaches a bucket, but for the endpoint."""


def s3a_jars(hadoop: str) -> list[str]:
    """Hadoop's file system for S3, of the version that Spark has, and what it stands on."""
    # The versions that Hadoop 3.5.0 names.
    found = jars(
        f"hadoop-aws-{hadoop}",
        ("org.apache.hadoop", "hadoop-aws", hadoop),
        ("software.amazon.awssdk", "bundle", "2.35.4"),
        ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
        transitive=False,
    )
    return [str(path) for path in sorted(Path(found).parent.glob("*.jar"))]


@contextmanager
def s3() -> Iterator[str]:
    """The address of an S3 without buckets."""
    python = _moto()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: _answers(address), "moto answers", 60)
        yield address
    finally:
        server.terminate()
        server.wait(10)


def make_bucket(address: str, name: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(f"{address}/{name}", method="PUT"), timeout=20) as answer:
        assert answer.status == 200


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/moto-api/", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _moto() -> str:
    home = cache_dir() / f"moto-{MOTO}"
    home.parent.mkdir(parents=True, exist_ok=True)
    python = home / "bin" / "python"
    with open(home.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / ".complete").exists():
            for command in (
                [sys.executable, "-m", "venv", "--clear", str(home)],
                [str(python), "-m", "pip", "install", "-q", f"moto[server]=={MOTO}"],
            ):
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=FETCH_S, check=False, env={**os.environ}
                )
                if done.returncode != 0:
                    lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
                    pytest.skip(f"moto could not be fetched: {lines[-1]}")
            (home / ".complete").touch()
    return str(python)
