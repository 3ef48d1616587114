"""`ottla wire` as a process would see it: lines in, lines out, an exit code."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.main import main
from tests.support.golden import golden_messages


def wire(*lines: str | bytes | dict[str, Any], frame: bool = False) -> tuple[list[dict[str, Any]], int]:
    """What the command answers, and its exit code."""
    text = b"".join(
        (line if isinstance(line, bytes) else line.encode() if isinstance(line, str) else json.dumps(line).encode())
        + b"\n"
        for line in lines
    )
    run = CliRunner().invoke(main, ["wire", *(["--frame"] if frame else [])], input=text)
    assert run.exception is None or isinstance(run.exception, SystemExit), run.exception
    return [json.loads(line) for line in run.stdout.splitlines()], run.exit_code


HEX: dict[str, Any] = {"name": "HeartbeatResponse", "version": 1, "hex": "000000000019"}
JSON: dict[str, Any] = {"name": "HeartbeatResponse", "version": 1, "json": {"throttleTimeMs": 0, "errorCode": 25}}
BOTH = HEX | JSON


def test_bytes_are_answered_with_their_json_and_json_with_its_bytes() -> None:
    assert wire(HEX, JSON) == ([BOTH, BOTH], 0)


def test_every_golden_message_goes_both_ways() -> None:
    golden = golden_messages()
    only_hex = [{key: line[key] for key in ("name", "version", "hex")} for line in golden]
    only_json = [{key: line[key] for key in ("name", "version", "json")} for line in golden]
    answers, code = wire(*only_hex, *only_json)
    assert answers == golden + golden
    assert code == 0


def test_what_a_line_holds_besides_is_passed_on() -> None:
    assert wire(HEX | {"id": 7, "note": {"a": 1}}) == ([BOTH | {"id": 7, "note": {"a": 1}}], 0)


def test_both_forms_are_compared_when_both_are_given() -> None:
    assert wire(BOTH) == ([BOTH], 0)
    answers, code = wire(BOTH | {"hex": "000000000000"})
    assert answers[0]["error"] == "`json` and `hex` are both there, and are not the same message"
    assert code == 1


def test_hex_may_have_spaces_and_capitals() -> None:
    spaced = {"name": "HeartbeatResponse", "version": 1, "hex": "00000000 001A"}
    assert wire(spaced)[0][0]["hex"] == "00000000001a"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("no json", "not JSON: "),
        ("[1]", "not a JSON object"),
        (b"\xff\xfe", "not JSON: "),
        ("[" * 100_000, "not JSON: "),
        ({}, "needs the `name` of a message"),
        ({"name": 5, "version": 1, "hex": ""}, "needs the `name` of a message"),
        (HEX | {"name": "HeartBeatResponse"}, "no message is named HeartBeatResponse; did you mean HeartbeatResponse?"),
        (HEX | {"name": "Kafka"}, "no message is named Kafka"),
        ({"name": "HeartbeatResponse", "hex": ""}, "needs a `version`"),
        (HEX | {"version": "1"}, "needs a `version`"),
        (HEX | {"version": True}, "needs a `version`"),
        (HEX | {"version": 9}, "HeartbeatResponse has versions 0-4, not 9."),
        ({"name": "HeartbeatResponse", "version": 1}, "needs `hex` or `json`"),
        (HEX | {"hex": "0g"}, "`hex` is not hexadecimal"),
        (HEX | {"hex": 5}, "`hex` is not hexadecimal"),
        (HEX | {"hex": "0000000000"}, "HeartbeatResponse.error_code at byte 4: needs 2 bytes, 1 remain"),
        (HEX | {"hex": "00000000001900"}, "HeartbeatResponse at byte 6: 1 bytes follow the end of the message"),
        (JSON | {"json": None}, "HeartbeatResponse: expected an object, found None"),
        (JSON | {"json": {"errorCode": 1}}, "HeartbeatResponse.throttle_time_ms: `throttleTimeMs` is missing"),
        (
            JSON | {"json": {"throttleTimeMs": 0, "errorCode": 99999}},
            "HeartbeatResponse.error_code: 99999 does not fit",
        ),
        ({"name": "LeaderAndIsrRequest", "version": 0, "json": {}}, "LeaderAndIsrRequest has versions none, not 0."),
    ],
)
def test_a_bad_line_gets_an_error_and_the_run_goes_on(line: str | bytes | dict[str, Any], error: str) -> None:
    answers, code = wire(HEX, line, JSON)
    assert [answers[0], answers[2]] == [BOTH, BOTH]
    assert answers[1]["error"].startswith(error)
    assert code == 1


def test_a_line_that_is_not_json_is_told_by_its_number() -> None:
    assert wire("", HEX, "", "nonsense")[0][1]["line"] == 4


def test_text_that_is_no_unicode_is_an_error_and_shown_as_it_came() -> None:
    line = {"name": "SaslHandshakeRequest", "version": 0, "json": {"mechanism": "\ud800"}}
    answers, code = wire(line)
    assert answers[0]["error"] == "SaslHandshakeRequest.mechanism: cannot be written as UTF-8: surrogates not allowed"
    assert answers[0]["json"] == line["json"]
    assert code == 1


def test_an_error_of_an_earlier_run_is_forgotten() -> None:
    assert wire(HEX | {"error": "old"}) == ([BOTH], 0)


def test_no_lines_are_no_error() -> None:
    assert wire() == ([], 0)


# Frames.

REQUEST = "001200000000000100026d65"
REQUEST_ANSWER: dict[str, Any] = {
    "name": "ApiVersionsRequest",
    "version": 0,
    "header": {"requestApiKey": 18, "requestApiVersion": 0, "correlationId": 1, "clientId": "me"},
    "json": {},
}
RESPONSE = "00000007000000000019"
RESPONSE_ANSWER: dict[str, Any] = JSON | {"header": {"correlationId": 7}}


@pytest.mark.parametrize("size", ["", "0000000c"])
def test_a_request_frame_tells_what_it_is(size: str) -> None:
    expected = REQUEST_ANSWER | {"hex": size + REQUEST}
    assert wire(size + REQUEST, {"hex": size + REQUEST}, frame=True) == ([expected, expected], 0)


@pytest.mark.parametrize("size", ["", "0000000a"])
def test_a_response_frame_needs_its_name_or_api_key_and_its_version(size: str) -> None:
    by_name = {"name": "HeartbeatResponse", "version": 1, "hex": size + RESPONSE}
    by_key = {"apiKey": 12, "version": 1, "hex": size + RESPONSE}
    expected = RESPONSE_ANSWER | {"hex": size + RESPONSE}
    assert wire(by_name, by_key, frame=True) == ([expected, expected | {"apiKey": 12}], 0)


def test_a_correlation_id_that_looks_like_a_size_is_not_taken_for_one() -> None:
    line = {"apiKey": 12, "version": 1, "hex": "00000006000000000019"}
    answers, code = wire(line, frame=True)
    assert answers[0]["header"] == {"correlationId": 6}
    assert code == 0


def test_a_frame_is_made_from_header_and_json() -> None:
    answers, code = wire(REQUEST_ANSWER, RESPONSE_ANSWER, frame=True)
    assert [answer["hex"] for answer in answers] == ["0000000c" + REQUEST, "0000000a" + RESPONSE]
    assert code == 0


def test_an_answer_without_its_hex_becomes_the_same_frame_again() -> None:
    flexible = "0001000d0000000100026d6500" + bytes(25).hex() + "01010100"
    answers, _ = wire(flexible, frame=True)
    again = {key: value for key, value in answers[0].items() if key != "hex"}
    assert again["name"] == "FetchRequest"
    assert wire(again, frame=True)[0][0]["hex"][8:] == flexible


def test_api_versions_of_the_future_shows_its_header() -> None:
    answers, code = wire("001200630000000100026d6500ff", frame=True)
    assert answers[0]["header"]["requestApiVersion"] == 99
    assert answers[0]["error"] == "ApiVersions has versions 0-4; a broker answers this request in version 0"
    assert code == 1


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("", None),
        ("zz", "`hex` is not hexadecimal"),
        ("00", "RequestHeader.request_api_key at byte 0: needs 2 bytes, 1 remain"),
        ("7fff0000", "Unknown API key 32767."),
        ("0001006300000001ffff00", "Fetch has versions 4-18, not 99."),
        (REQUEST + "00", "ApiVersionsRequest at byte 12: 1 bytes follow the end of the message"),
        ({"hex": RESPONSE, "apiKey": 12}, "needs a `version`"),
        ({"hex": RESPONSE, "apiKey": "12", "version": 1}, "`apiKey` must be a whole number"),
        ({"hex": RESPONSE, "apiKey": 1200, "version": 1}, "Unknown API key 1200."),
        ({"hex": RESPONSE, "name": "TopicRecord", "version": 0}, "TopicRecord is neither a request nor a response"),
        ({"hex": "0000000b" + RESPONSE, "apiKey": 12, "version": 1}, "HeartbeatResponse"),
        ({"name": "HeartbeatResponse", "version": 1}, "needs `hex`, or `header` and `json`"),
        (REQUEST_ANSWER | {"version": 1}, "the header is that of another API or version"),
        (RESPONSE_ANSWER | {"name": "TopicRecord", "json": {}}, "TopicRecord is neither a request nor a response"),
    ],
)
def test_a_bad_frame_gets_an_error_and_the_run_goes_on(line: str | dict[str, Any], error: str | None) -> None:
    answers, code = wire(REQUEST, line, REQUEST, frame=True)
    if error is None:
        assert (len(answers), code) == (2, 0)
        return
    assert [answers[0], answers[2]] == [REQUEST_ANSWER | {"hex": REQUEST}] * 2
    assert answers[1]["error"].startswith(error)
    assert code == 1


def test_every_example_of_the_help_works() -> None:
    from ottla.cli.wire import EXAMPLES

    messages, frames = (part.splitlines() for part in EXAMPLES.split("Frames"))
    lines = [line.strip() for line in messages if line.startswith("  ")]
    answers, code = wire(*lines)
    assert answers == [BOTH, BOTH, BOTH]
    assert code == 0
    lines = [line.strip() for line in frames if line.startswith("  ")]
    answers, code = wire(*lines, frame=True)
    assert [answer["name"] for answer in answers] == ["ApiVersionsRequest"] * 2 + ["HeartbeatResponse"] * 2
    assert code == 0


def test_help_loads_no_message_and_answers_at_once() -> None:
    script = (
        "import sys\nfrom ottla.cli.main import main\n"
        "try:\n    main(['wire', '--help'])\n"
        "finally:\n    print(sorted(n for n in sys.modules if n.startswith('ottla.wire')))"
    )
    start = time.monotonic()
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "Turn protocol bytes into JSON and back." in run.stdout
    assert run.stdout.splitlines()[-1] == "[]"
    assert time.monotonic() - start < 5, "help took seconds, even for a busy machine"
