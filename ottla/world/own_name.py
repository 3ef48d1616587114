"""The canonical name of this host, found as Java's `InetAddress.getLocalHost().getCanonicalHostName()` finds it.

Promises: the loop never waits for a resolver. Look-ups run on a daemon thread, not in the loop's pool: the end of the
loop and of the process would wait for those of the pool, and a resolver that nobody answers takes half a minute.
Called by `SystemNetwork.own_name`, which imports it when it is first asked: most nodes are told their names.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from functools import partial


async def own_name(loop: asyncio.AbstractEventLoop, timeout_ms: float) -> str:
    """See `Network.own_name`."""
    name = socket.gethostname()
    deadline_s = loop.time() + timeout_ms / 1000
    try:
        address = await _look_up(loop, partial(_address_of, name), deadline_s)
    except TimeoutError:
        raise TimeoutError(f"{name}: no answer from the resolver within {timeout_ms:g} ms") from None
    except OSError as error:
        raise OSError(error.errno, f"{name}: {error.strerror}") from None
    try:
        return await _look_up(loop, partial(_canonical_name, address), deadline_s)
    except OSError:  # no name, or not in time; others reach the host by its address as well
        return address


def _address_of(name: str) -> str:
    """The address that Java would choose: IPv4 where there is one."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    found.sort(key=lambda one: one[0] != socket.AF_INET)
    return str(found[0][4][0])


def _canonical_name(address: str) -> str:
    """The name of an address, unless that name leads elsewhere."""
    name, _ = socket.getnameinfo((address, 0), socket.NI_NAMEREQD)
    addresses = {one[4][0] for one in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}
    return name if address in addresses else address


async def _look_up(loop: asyncio.AbstractEventLoop, call: Callable[[], str], deadline_s: float) -> str:
    answer: asyncio.Future[str] = loop.create_future()

    def settle(found: str | OSError) -> None:
        if answer.done():
            return  # nobody waits for it any more
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def run() -> None:
        found: str | OSError
        try:
            found = call()
        except OSError as error:
            found = error
        except UnicodeError as error:  # a name that cannot be written as one of the DNS
            found = socket.gaierror(socket.EAI_NONAME, str(error))
        try:
            loop.call_soon_threadsafe(settle, found)
        except RuntimeError:
            return  # the loop has ended meanwhile

    threading.Thread(target=run, name="own-name", daemon=True).start()
    async with asyncio.timeout_at(deadline_s):
        return await answer
