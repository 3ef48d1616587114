"""HTTP in: what is answered for is on the disk, and what is not right is refused."""

from __future__ import annotations

import http.client
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.pipelines.connect.http_in import HttpIn, Refusal, Spool, records_of
from ottla.pipelines.errors import PipelineError


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HttpIn]:
    with HttpIn("127.0.0.1:0", "/in", Spool(tmp_path / "spool"), token="secret", bytes_max=1000) as running:
        yield running


def posted(
    server: HttpIn, body: bytes, kind: str = "application/json", *, path: str = "/in", token: str = "secret"
) -> tuple[int, object]:
    connection = http.client.HTTPConnection(server.address, timeout=10)
    connection.request("POST", path, body, {"Content-Type": kind, "Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    status, said = answer.status, json.loads(answer.read())
    connection.close()
    return status, said


def spooled(directory: Path) -> list[str]:
    return [line for path in sorted(directory.glob("*.txt")) for line in path.read_text().splitlines()]


def test_records_are_in_the_spool_when_the_answer_comes(server: HttpIn, tmp_path: Path) -> None:
    assert posted(server, b'{\n "id": 1.10000000000000000001\r\n}') == (200, {"records": 1})
    assert spooled(tmp_path / "spool") == ['{  "id": 1.10000000000000000001  }'], "no digit may be lost"
    assert posted(server, b'[{"id":2}, "]", [3]]') == (200, {"records": 3})
    assert posted(server, b'{"id":5}\n\n{"id":6}\n', "application/x-ndjson") == (200, {"records": 2})
    assert posted(server, b"[]") == (200, {"records": 0})
    assert spooled(tmp_path / "spool")[1:] == ['{"id":2}', '"]"', "[3]", '{"id":5}', '{"id":6}']


@pytest.mark.parametrize(
    ("body", "path", "token", "status"),
    [
        (b"{", "/in", "secret", 400),
        (b"\xff", "/in", "secret", 400),
        (b"{}", "/out", "secret", 404),
        (b"{}", "/in", "guess", 401),
        (b'"' + b"x" * 1000 + b'"', "/in", "secret", 413),
    ],
)
def test_what_is_not_right_is_refused_and_not_kept(
    server: HttpIn, tmp_path: Path, body: bytes, path: str, token: str, status: int
) -> None:
    answer, said = posted(server, body, path=path, token=token)
    assert answer == status
    assert isinstance(said, dict)
    assert said["error"]
    assert spooled(tmp_path / "spool") == []


def test_many_senders_share_the_syncs_of_the_disk(
    server: HttpIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (threading.Event().wait(0.02), synced(handle))[1])
    threads = [
        threading.Thread(target=posted, args=(server, json.dumps({"id": number}).encode())) for number in range(40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(json.loads(line)["id"] for line in spooled(tmp_path / "spool")) == list(range(40))
    assert len(list((tmp_path / "spool").glob("*.txt"))) < 40


def test_a_disk_that_refuses_is_told_to_the_sender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Refusal, match="the disk refuses: No space left on device") as caught:
        spool.put([b"{}"])
    assert caught.value.status == 507
    assert spooled(tmp_path) == []
    spool.close()
    with pytest.raises(Refusal, match="the pipeline stops"):
        spool.put([b"{}"])


def test_what_a_killed_run_left_half_written_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "_new").mkdir()
    (tmp_path / "_new" / "1.txt").write_text('{"id":')
    Spool(tmp_path).close()
    assert list((tmp_path / "_new").iterdir()) == []


def test_an_address_that_cannot_be_listened_on_is_one_line(server: HttpIn, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "other")
    with pytest.raises(PipelineError, match=r"cannot listen on .*: Address already in use"):
        HttpIn(server.address, "/", spool, token=None, bytes_max=1)
    with pytest.raises(PipelineError, match="listen takes host:port, and not 'here'"):
        HttpIn("here", "/", spool, token=None, bytes_max=1)
    spool.close()


def test_a_scalar_is_a_record_too() -> None:
    assert records_of("application/json", b" 7 ") == [b"7"]
    assert records_of("text/plain", b"a\r\nb\n \nc") == [b"a", b"b", b"c"]
