"""HTTP in: what is answered for is on the disk, and what is not right is refused."""

from __future__ import annotations

import http.client
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.pipelines.connect.http_in import HttpIn, Refusal, Spool, _Body, records_of
from ottla.pipelines.connect.idempotency import digest_of
from ottla.pipelines.errors import PipelineError


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HttpIn]:
    with HttpIn("127.0.0.1:0", "/in", Spool(tmp_path / "spool"), token="secret", bytes_max=1000) as running:
        yield running


def posted(
    server: HttpIn,
    body: bytes,
    kind: str = "application/json",
    *,
    path: str = "/in",
    token: str = "secret",
    key: str | None = None,
) -> tuple[int, object]:
    connection = http.client.HTTPConnection(server.address, timeout=10)
    headers = {"Content-Type": kind, "Authorization": f"Bearer {token}"}
    connection.request("POST", path, body, headers | ({} if key is None else {"Idempotency-Key": key}))
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


def test_a_body_that_is_sent_again_under_its_key_is_taken_once(server: HttpIn, tmp_path: Path) -> None:
    first, other = b'[{"id":1},{"id":2}]', b'{"id":3}'
    for key in ("a-1", '"a-1"', "a-1"):
        assert posted(server, first, key=key) == (200, {"records": 2})
    status, said = posted(server, other, key="a-1")
    assert (status, said) == (422, {"error": "this Idempotency-Key was used for another body: use a new one"})
    assert posted(server, other, key="a-2") == (200, {"records": 1})
    for _ in range(2):
        assert posted(server, other) == (200, {"records": 1})
    for key in ("", "two words", "x" * 256):
        assert posted(server, other, key=key)[0] == 400
    assert spooled(tmp_path / "spool") == ['{"id":1}', '{"id":2}', '{"id":3}', '{"id":3}', '{"id":3}']


def test_keys_are_remembered_over_restarts_and_no_more_than_so_many(tmp_path: Path) -> None:
    for start in range(0, 40, 8):
        spool = Spool(tmp_path, keys_max=10)
        for number in range(start, start + 8):
            spool.put([b"%d" % number], f"key-{number}")
        for number in range(max(0, start - 2), start + 8):
            spool.put([b"%d" % number], f"key-{number}")
        spool.close()
    assert [int(line) for line in spooled(tmp_path)] == list(range(40))
    spool = Spool(tmp_path, keys_max=10)
    spool.put([b"other"], "key-0")  # forgotten by now
    spool.close()
    assert spooled(tmp_path)[-1] == "other"
    assert (tmp_path / "_keys").read_bytes().count(b"key-") <= 20


def test_bodies_of_one_key_at_one_time_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (threading.Event().wait(0.02), synced(handle))[1])
    spool = Spool(tmp_path)
    threads = [threading.Thread(target=spool.put, args=([b"%d" % (n % 4)], f"key-{n % 4}")) for n in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spool.close()
    assert sorted(spooled(tmp_path)) == ["0", "1", "2", "3"]


class Cut(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("step", range(14))
def test_a_run_that_is_cut_short_at_any_step_has_a_body_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Whoever had no answer sends the body again, to the next run; whoever had one may do so too."""
    before = Spool(tmp_path)
    before.put([b"0"], "key-0")
    before.close()
    left = [step]

    def counted(step_of: Callable[..., Any]) -> Callable[..., Any]:
        def taken(*args: Any) -> Any:
            if not left[0]:
                raise Cut
            left[0] -= 1
            return step_of(*args)

        return taken

    spool = Spool(tmp_path)
    with monkeypatch.context() as cut:
        for name in ("fsync", "replace", "pwrite", "ftruncate"):
            cut.setattr(os, name, counted(getattr(os, name)))
        for number in (1, 2):
            try:
                body = _Body([b"%d" % number], 1, key=f"key-{number}", digest=digest_of([b"%d" % number]))
                spool._store([body])
            except Cut:
                break
    spool.close()
    after = Spool(tmp_path)
    for number in (0, 1, 2):
        after.put([b"%d" % number], f"key-{number}")
    after.close()
    assert spooled(tmp_path) == ["0", "1", "2"]


def test_a_disk_that_refuses_halfway_leaves_a_journal_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path)
    wrote = os.pwrite
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", lambda handle, data, at: wrote(handle, data[:9], at))
        with pytest.raises(Refusal, match="the disk refuses: 9 of"):
            spool.put([b"1"], "key-1")
    with monkeypatch.context() as full:

        def refuse(*_: object) -> None:
            raise OSError(28, "No space left on device")

        full.setattr(os, "replace", refuse)
        with pytest.raises(Refusal, match="No space left"):
            spool.put([b"2"], "key-2")
    spool.put([b"3"], "key-3")
    spool.put([b"1"], "key-1")
    spool.put([b"2"], "key-2")
    spool.close()
    Spool(tmp_path).close()
    assert sorted(spooled(tmp_path)) == ["1", "2", "3"]


def test_a_journal_that_is_damaged_is_told_and_its_torn_end_is_not(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.put([b"1"], "key-1")
    spool.close()
    journal = tmp_path / "_keys"
    whole = journal.read_bytes()
    journal.write_bytes(whole + whole[:10])
    Spool(tmp_path).close()
    assert journal.read_bytes() == whole
    journal.write_bytes(b"{}\n" + whole)
    with pytest.raises(PipelineError, match="_keys is damaged in line 1"):
        Spool(tmp_path)
