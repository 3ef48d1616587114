"""A door to HTTP for small questions: one request, one answer, both in memory and bounded.

Promises: an answer with any status is returned, whatever else happens raises `HttpFailed`; nothing takes much longer
than `timeout_s`, and no answer larger than `size_max` is read. It blocks, so it is for what is asked once and then
remembered. Only `http` and `https` are spoken: an address never reads a local file.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

SIZE_MAX = 16 * 1024 * 1024


class HttpFailed(OSError):
    """There was no answer: no connection, a broken one, too slow or too much."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What the server said."""

    status: int
    body: bytes


def fetch(
    method: str,
    url: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float,
    size_max: int = SIZE_MAX,
) -> HttpAnswer:
    """Ask once. Redirects of a GET are followed, as `urllib` follows them, and only to `http` and `https`."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise HttpFailed(f"{url} is neither http nor https")
    request = urllib.request.Request(url, data=body, headers=dict(headers or {}), method=method)
    try:
        with _OPENER.open(request, timeout=timeout_s) as answer:
            return HttpAnswer(answer.status, _read(answer, url, size_max))
    except urllib.error.HTTPError as error:
        with error:
            return HttpAnswer(error.code, _read(error, url, size_max))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise HttpFailed(f"{method} {url}: {getattr(error, 'reason', None) or error}") from error


def _opener() -> urllib.request.OpenerDirector:
    """What `urllib` opens with by default, without files, FTP and data addresses."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


_OPENER = _opener()


def _read(answer: http.client.HTTPResponse | urllib.error.HTTPError, url: str, size_max: int) -> bytes:
    body = answer.read(size_max + 1)
    if len(body) > size_max:
        raise HttpFailed(f"{url} answered with more than {size_max} bytes")
    return bytes(body)
