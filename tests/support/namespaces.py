"""A network of its own for a test: each host in a network namespace, all of them and the test on one bridge.

`Network` loses the packets from one host to another, in one direction or in both, as a pulled cable does: nobody is
told, and connections hang. It does so by telling the sender a wrong hardware address, so it needs neither a packet
filter nor a traffic shaper of the kernel, only `ip` (Debian's iproute2) and the right to make namespaces.

Promises: names and addresses are those of one process (a bridge is made with a number that is free, so tests may run
side by side), nothing of the machine's own network is touched, and `close` removes all of it. What a killed test has
left is removed by the next one. Called by tests of clusters.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType

import pytest

CLIENTS = 0
"""The host on which the test itself is: the bridge's side, in the namespace of the test's process."""
_CLIENTS_BYTE = 254
_NETWORK_MAX = 250
_PREFIX = "ottlanet"
_NOWHERE = "02:6f:74:ff:ff:ff"
"""Nobody's hardware address."""


@cache
def obstacle() -> str | None:
    """Why there can be no namespaces here; None when there can."""
    if shutil.which("ip") is None:
        return "needs `ip` (Debian's iproute2) to make network namespaces"
    try:
        with Network([1]) as network:
            tried = subprocess.run([*network.command(1), "true"], capture_output=True, text=True, check=False)
    except NamespaceError as error:
        return f"network namespaces cannot be made here: {error}"
    return f"nothing can be run in a network namespace here: {tried.stderr.strip()}" if tried.returncode else None


def network_or_skip(hosts: Iterable[int]) -> Network:
    """A network, or a skipped test that says why there is none."""
    reason = obstacle()
    if reason is not None:
        pytest.skip(reason)
    return Network(hosts)


class NamespaceError(Exception):
    """`ip` refused."""


class Network:
    """`with Network([1, 2, 3]) as network: ... network.cut(1, 2)`. Hosts are numbers from 1 to 250."""

    def __init__(self, hosts: Iterable[int]) -> None:
        self.hosts = list(hosts)
        self._cut: set[tuple[int, int]] = set()
        _remove_leftovers()
        self._number = _take_number()
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def address(self, host: int) -> str:
        # 198.18.0.0/15 is kept for tests of networks (RFC 2544): it is nobody's.
        return f"198.18.{self._number}.{_CLIENTS_BYTE if host == CLIENTS else host}"

    def command(self, host: int) -> list[str]:
        """What a command line begins with that is to run on a host; the process is the command's own."""
        return ["ip", "netns", "exec", self._namespace(host)]

    def cut(self, *links: tuple[int, int]) -> None:
        """Lose what the first host of each link sends to the second."""
        self._set(links, is_cut=True)

    def heal(self, *links: tuple[int, int]) -> None:
        """Let what was lost pass again, on all links or on these."""
        self._set(links or sorted(self._cut), is_cut=False)

    def cut_count(self, host: int) -> int:
        """How many links from or to a host are cut."""
        return sum(host in link for link in self._cut)

    def close(self) -> None:
        _remove(self._number)

    def _set(self, links: Sequence[tuple[int, int]], *, is_cut: bool) -> None:
        lines: dict[int, list[str]] = {}
        for source, target in links:
            lines.setdefault(source, []).append(self._neighbour(source, target, is_cut=is_cut))
        for source, commands in lines.items():
            _ip(commands, namespace=None if source == CLIENTS else self._namespace(source))
        self._cut = self._cut | set(links) if is_cut else self._cut - set(links)

    def _neighbour(self, source: int, target: int, *, is_cut: bool) -> str:
        device = self.bridge if source == CLIENTS else "eth0"
        hardware = _NOWHERE if is_cut else self._hardware(target)
        return f"neigh replace {self.address(target)} lladdr {hardware} dev {device} nud permanent"

    def _build(self) -> None:
        outside = [
            f"link set {self.bridge} address {self._hardware(CLIENTS)} alias pid-{os.getpid()}",
            f"addr add {self.address(CLIENTS)}/24 dev {self.bridge}",
            f"link set {self.bridge} up",
        ]
        for host in self.hosts:
            outside += [
                f"netns add {self._namespace(host)}",
                f"link add {self._port(host)} type veth peer name eth0 netns {self._namespace(host)}",
                f"link set {self._port(host)} master {self.bridge} up",
                self._neighbour(CLIENTS, host, is_cut=False),
            ]
        _ip(outside)
        for host in self.hosts:
            inside = [
                "link set lo up",
                f"link set eth0 address {self._hardware(host)}",
                f"addr add {self.address(host)}/24 dev eth0",
                "link set eth0 up",
            ]
            others = [CLIENTS, *(other for other in self.hosts if other != host)]
            inside += [self._neighbour(host, other, is_cut=False) for other in others]
            _ip(inside, namespace=self._namespace(host))

    @property
    def bridge(self) -> str:
        """The name of the bridge, which the names of everything else begin with."""
        return f"{_PREFIX}{self._number}"

    def _namespace(self, host: int) -> str:
        return f"{self.bridge}-{host}"

    def _port(self, host: int) -> str:
        return f"{self.bridge}-{host}"

    def _hardware(self, host: int) -> str:
        return f"02:6f:74:00:{self._number:02x}:{host:02x}"

    def __enter__(self) -> Network:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def _take_number() -> int:
    """Make a bridge with the first number that is free: that no other has its name is what makes it ours."""
    failure = ""
    for number in range(_NETWORK_MAX):
        if _output("-4", "route", "show", "to", "root", f"198.18.{number}.0/24", "table", "all"):
            continue  # this machine uses these addresses, or a test on it does
        try:
            _ip([f"link add {_PREFIX}{number} type bridge"])
        except NamespaceError as error:
            failure = str(error)
            if "File exists" not in failure:
                raise
            continue
        return number
    raise NamespaceError(failure or "all addresses of 198.18.0.0/16 are in use")


def _remove_leftovers() -> None:
    """Those of processes that do not live any more."""
    for link in json.loads(_output("-json", "link", "show", "type", "bridge") or "[]"):
        found = re.fullmatch(rf"{_PREFIX}(\d+)", link.get("ifname", ""))
        owner = re.fullmatch(r"pid-(\d+)", link.get("ifalias", ""))
        if found and owner and not Path(f"/proc/{owner[1]}").exists():
            _remove(int(found[1]))


def _remove(number: int) -> None:
    """Namespaces first: a bridge that is still there says that its number is taken."""
    bridge = f"{_PREFIX}{number}"
    names = [line.split()[0] for line in _output("netns", "list").splitlines()]
    mine = [name for name in names if name.startswith(f"{bridge}-")]
    links = json.loads(_output("-json", "link", "show") or "[]")
    ports = [name for link in links if (name := link["ifname"]).startswith(f"{bridge}-")]
    _ip(
        [*(f"link del {name}" for name in ports), *(f"netns del {name}" for name in mine), f"link del {bridge}"],
        is_forced=True,
    )


def _ip(commands: Sequence[str], *, namespace: str | None = None, is_forced: bool = False) -> None:
    """Run the commands in turn; with `is_forced` go on after one that fails."""
    options = [*(["-n", namespace] if namespace else []), *(["-force"] if is_forced else [])]
    done = subprocess.run(
        ["ip", *options, "-batch", "-"], input="\n".join(commands) + "\n", capture_output=True, text=True, check=False
    )
    if done.returncode != 0 and not is_forced:
        raise NamespaceError(" ".join(done.stderr.split()))


def _output(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False).stdout
