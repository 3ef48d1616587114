"""`ottla wire`: protocol bytes to JSON and back, one JSON line in, one JSON line out.

Promises: every line is answered in its order; a line that is wrong gets an `error` and the run goes on; the exit code
is 1 when any line failed. What a line holds besides is passed on, so that answers can be told apart.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ottla.wire import Api, Message

Line = dict[str, Any]
ORDER = ("name", "apiKey", "version", "header", "json", "hex", "error")

EXAMPLES = """\b
Messages: a line has a name, a version, and the bytes or the JSON.
  {"name": "HeartbeatResponse", "version": 1, "hex": "000000000019"}
  {"name": "HeartbeatResponse", "version": 1, "json": {"throttleTimeMs": 0, "errorCode": 25}}
Both are answered with
  {"name": "HeartbeatResponse", "version": 1, "json": {"throttleTimeMs": 0, "errorCode": 25}, "hex": "000000000019"}

\b
Frames (--frame): a request tells what it is, so its hex is enough, bare or as JSON. A response does not: give the
name or the API key of what it answers, and the version. The size in front of a frame may be there or not.
  0012 0000 00000001 0002 6d65
  {"hex": "0000000c 0012 0000 00000001 0002 6d65"}
  {"name": "HeartbeatResponse", "version": 1, "hex": "00000001 000000000019"}
  {"apiKey": 12, "version": 1, "hex": "0000000a 00000001 000000000019"}
The answer also has the header; an answer without its hex is turned into a frame again.
"""


@click.command(epilog=EXAMPLES)
@click.option("--frame", "frames", is_flag=True, help="Read whole requests and responses, header included.")
@click.pass_context
def command(ctx: click.Context, frames: bool) -> None:
    """Turn protocol bytes into JSON and back.

    Reads JSON lines on stdin and writes each with both forms filled in, or with an `error`. The JSON is that of Kafka's
    own tools. The exit code is 1 when a line had an error.
    """
    convert = _frame if frames else _message
    failures = 0
    for answer in _answers(sys.stdin.buffer, convert, bare_hex=frames):
        failures += "error" in answer
        sys.stdout.buffer.write(_dump(answer))
        sys.stdout.buffer.flush()
    ctx.exit(1 if failures else 0)


class LineError(Exception):
    """A line does not hold what is needed."""


def _answers(lines: Iterable[bytes], convert: Callable[[Line], Line], *, bare_hex: bool) -> Iterable[Line]:
    from ottla.errors import KafkaError
    from ottla.wire import DecodeError, EncodeError
    from ottla.wire.json_form import JsonFormError

    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        line: Line = {"line": number}
        try:
            line = _parse(text, bare_hex=bare_hex)
            line = convert(line)
        except (LineError, DecodeError, EncodeError, JsonFormError, KafkaError) as error:
            line = line | {"error": str(error)}
        yield line


def _parse(text: bytes, *, bare_hex: bool) -> Line:
    if bare_hex and not text.lstrip().startswith(b"{"):
        return {"hex": text.decode("ascii", "replace").strip()}
    try:
        line = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LineError(f"not JSON: {error}") from None
    if not isinstance(line, dict):
        raise LineError("not a JSON object")
    line.pop("error", None)  # of an earlier run over the same line
    return line


def _message(line: Line) -> Line:
    """Fill in the form that a message lacks; where both are given, they must say the same."""
    from ottla.wire import decode, encode
    from ottla.wire.json_form import from_json, to_json

    cls, version = _class(line), _version(line)
    if "hex" in line:
        message = decode(cls, version, _bytes(line))
        if "json" in line and encode(from_json(cls, version, line["json"]), version) != encode(message, version):
            raise LineError("`json` and `hex` are both there, and are not the same message")
    elif "json" in line:
        message = from_json(cls, version, line["json"])
    else:
        raise LineError("needs `hex` or `json`")
    form = to_json(message, version)
    data = _bytes(line) if "hex" in line else encode(message, version)
    return line | {"json": form, "hex": data.hex()}


def _frame(line: Line) -> Line:
    if "hex" not in line:
        return line | {"hex": _write_frame(line).hex()}
    data = _bytes(line)
    line = line | {"hex": data.hex()}
    has_size = len(data) >= 4 and int.from_bytes(data[:4], "big", signed=True) == len(data) - 4
    api = _answered_api(line)
    read = _read_request if api is None else _read_response
    if not has_size:
        return line | read(line, api, data)
    from ottla.errors import KafkaError
    from ottla.wire import DecodeError

    try:
        return line | read(line, api, data[4:])
    except (DecodeError, KafkaError) as error:
        # Four bytes that merely look like a size: the key and version of a request, or a correlation id.
        try:
            return line | read(line, api, data)
        except (DecodeError, KafkaError):
            raise error from None


def _read_request(line: Line, api: Api | None, data: bytes) -> Line:
    from ottla.wire import find_api
    from ottla.wire.frames import read_request
    from ottla.wire.json_form import to_json

    header, body, version = request = read_request(data, strict=True)
    called = find_api(header.request_api_key)
    shown = {
        "name": body.schema.name,
        "version": header.request_api_version,
        "header": to_json(header, called.request_header_version(header.request_api_version)),
    }
    if not request.is_supported:
        error = f"{called.name} has versions {called.versions}; a broker answers this request in version {version}"
        return shown | {"error": error}
    return shown | {"json": to_json(body, version)}


def _read_response(line: Line, api: Api | None, data: bytes) -> Line:
    from ottla.wire.frames import read_response
    from ottla.wire.json_form import to_json

    assert api is not None, "a response is read as that of an API"
    version = _version(line)
    header, body = read_response(data, api.key, version, strict=True)
    return {
        "name": body.schema.name,
        "version": version,
        "header": to_json(header, api.response_header_version(version)),
        "json": to_json(body, version),
    }


def _write_frame(line: Line) -> bytes:
    from ottla.wire import find_api
    from ottla.wire.frames import write_request, write_response
    from ottla.wire.json_form import from_json
    from ottla.wire.messages.header import RequestHeader, ResponseHeader

    if "json" not in line or "header" not in line:
        raise LineError("needs `hex`, or `header` and `json`")
    cls, version = _class(line), _version(line)
    if cls.schema.api_key is None or not cls.__name__.endswith(("Request", "Response")):
        raise LineError(f"{cls.__name__} is neither a request nor a response")
    api = find_api(cls.schema.api_key)
    body = from_json(cls, version, line["json"])
    if cls.__name__.endswith("Request"):
        header = from_json(RequestHeader, api.request_header_version(version), line["header"])
        if (header.request_api_key, header.request_api_version) != (api.key, version):
            raise LineError("the header is that of another API or version")
        return bytes(write_request(header, body))
    response_header = from_json(ResponseHeader, api.response_header_version(version), line["header"])
    parts = write_response(response_header.correlation_id, body, version)
    return b"".join(part for part in parts if isinstance(part, bytes | bytearray | memoryview))


def _answered_api(line: Line) -> Api | None:
    """The API whose response the line holds, or None for a request."""
    from ottla.wire import find_api

    if "apiKey" in line:
        key = line["apiKey"]
        if not isinstance(key, int) or isinstance(key, bool):
            raise LineError("`apiKey` must be a whole number")
        return find_api(key)
    if "name" not in line or str(line["name"]).endswith("Request"):
        return None
    cls = _class(line)
    if cls.schema.api_key is None or not cls.__name__.endswith("Response"):
        raise LineError(f"{cls.__name__} is neither a request nor a response")
    return find_api(cls.schema.api_key)


def _class(line: Line) -> type[Message]:
    from ottla.wire import message_class, message_names

    name = line.get("name")
    if not isinstance(name, str):
        raise LineError("needs the `name` of a message, such as FetchRequest")
    try:
        return message_class(name)
    except KeyError:
        import difflib

        close = difflib.get_close_matches(name, message_names(), 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise LineError(f"no message is named {name}{hint}") from None


def _version(line: Line) -> int:
    version = line.get("version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise LineError("needs a `version`, a whole number")
    return version


def _bytes(line: Line) -> bytes:
    try:
        return bytes.fromhex(line["hex"])
    except (ValueError, TypeError) as error:
        raise LineError(f"`hex` is not hexadecimal: {error}") from None


def _dump(answer: Line) -> bytes:
    answer = {key: answer[key] for key in ORDER if key in answer} | answer
    try:
        return json.dumps(answer, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair came in, and is shown as it came
        return json.dumps(answer).encode() + b"\n"
