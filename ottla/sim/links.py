"""What is wrong with the ways between hosts: cuts, in one direction or both, slow links, links that come and go.

Every trouble has a name, by which it is healed; two troubles of one way are healed one by one. Directions are ways of
their own: from `a` to `b` may be cut, slow or crowded while nothing is wrong from `b` to `a`.

Promises: nothing is drawn from `chance` and nothing costs time while nothing is slow. Called by `network`, which asks
for every packet, and by scenarios.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextvars import Context
from dataclasses import dataclass
from itertools import permutations
from random import Random

from ottla.sim.loop import VirtualLoop

ANY = "*"
"""Every other host, also those that come later."""


@dataclass(slots=True)
class _Slow:
    """One direction of a slow link. All connections share its bandwidth."""

    delay_us: tuple[int, int]
    bytes_per_second: int | None
    busy_until_us: int = 0


def path_of(number: int) -> int:
    """Which of two paths a connection takes: by a hash, as routers choose."""
    return number * 0x9E3779B1 >> 16 & 1


class Links:
    """All that is wrong, by name."""

    def __init__(
        self,
        loop: VirtualLoop,
        chance: Random,
        trace: Callable[[str], None],
        on_changed: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._chance = chance
        self._trace = trace
        self._on_changed = on_changed
        self._cuts: dict[str, frozenset[tuple[str, str]]] = {}
        self._slow: dict[str, dict[tuple[str, str], _Slow]] = {}
        self._flapping: dict[str, int] = {}
        """Links that come and go, each with the number of its trouble: a timer of an earlier one does nothing."""
        self._flap_count = 0
        self._stalls: dict[str, tuple[frozenset[str], int]] = {}
        """Pairs of hosts, and which of the two paths between them is broken."""
        self._cut_ways: frozenset[tuple[str, str]] = frozenset()
        self.has_slow = False

    @property
    def has_cuts(self) -> bool:
        """Whether something does not arrive, of all connections between two hosts or of some."""
        return bool(self._cut_ways or self._stalls)

    @property
    def names(self) -> list[str]:
        """The troubles there are, the oldest of each kind first."""
        return list(dict.fromkeys((*self._cuts, *self._slow, *self._flapping, *self._stalls)))

    def is_cut(self, source: str, target: str) -> bool:
        cut = self._cut_ways
        return bool(cut) and ((source, target) in cut or (source, ANY) in cut or (ANY, target) in cut)

    def is_stalled(self, source: str, target: str, number: int) -> bool:
        """Whether the path of the connection of this number is broken."""
        return bool(self._stalls) and any(
            source in pair and target in pair and path == path_of(number) for pair, path in self._stalls.values()
        )

    def delay_us(self, source: str, target: str, size: int) -> int:
        """How much longer a packet of this size takes than on a sound link."""
        total_us = 0
        for ways in self._slow.values():
            slow = ways.get((source, target))
            if slow is None:
                continue
            total_us += self._chance.randint(*slow.delay_us)
            if slow.bytes_per_second is not None:
                begun_us = max(slow.busy_until_us, self._loop.now_us)
                slow.busy_until_us = begun_us + size * 1_000_000 // slow.bytes_per_second
                total_us += slow.busy_until_us - self._loop.now_us
        return total_us

    # What goes wrong.

    def cut(
        self, sources: Sequence[str], targets: Sequence[str], *, is_one_way: bool = False, name: str | None = None
    ) -> str:
        """Let nothing of the sources reach the targets, nor the other way unless `is_one_way`; the trouble's name."""
        ways = {(source, target) for source in sources for target in targets}
        if not is_one_way:
            ways |= {(target, source) for source, target in ways}
        name = name or f"{','.join(sources)} {'->' if is_one_way else '<->'} {','.join(targets)}"
        self._cuts[name] = frozenset(ways)
        self._change(f"cut: {name}")
        return name

    def isolate(self, host: str, *, name: str | None = None) -> str:
        """Cut a host off from everybody."""
        return self.cut([host], [ANY], name=name or f"{host} isolated")

    def mute(self, host: str, *, name: str | None = None) -> str:
        """Let nobody hear a host, which hears everybody."""
        return self.cut([host], [ANY], is_one_way=True, name=name or f"{host} muted")

    def deafen(self, host: str, *, name: str | None = None) -> str:
        """Let a host hear nobody, while everybody hears it."""
        return self.cut([ANY], [host], is_one_way=True, name=name or f"{host} deaf")

    def partition(self, *sides: Collection[str], name: str | None = None) -> str:
        """Cut the network into sides. A host that is on none of them still reaches all."""
        ways = {
            (source, target) for one, other in permutations(sides, 2) for source in one for target in other
        }  # fmt: skip
        name = name or " | ".join(",".join(side) for side in sides)
        self._cuts[name] = frozenset(ways)
        self._change(f"partition: {name}")
        return name

    def slow(
        self,
        source: str,
        target: str,
        *,
        delay_us: tuple[int, int] = (0, 0),
        bytes_per_second: int | None = None,
        is_one_way: bool = False,
        name: str | None = None,
    ) -> str:
        """Let packets take longer: each by a delay between the two given, all of them by the link's bandwidth."""
        assert 0 <= delay_us[0] <= delay_us[1], "a delay is a range, and nothing arrives before it is sent"
        ways = [(source, target)] if is_one_way else [(source, target), (target, source)]
        name = name or f"{source} {'->' if is_one_way else '<->'} {target} slow"
        self._slow[name] = {way: _Slow(delay_us, bytes_per_second) for way in ways}
        self._change(f"slow: {name}, {delay_us} us, {bytes_per_second} bytes a second")
        return name

    def stall(self, one: str, other: str, *, path: int, name: str | None = None) -> str:
        """Break one of two paths between two hosts, as where routers spread connections over several and one of those
        is broken: about half of the connections hang, and the others go on."""
        name = name or f"{one} <-> {other} path {path}"
        self._stalls[name] = (frozenset((one, other)), path)
        self._change(f"stalled: {name}")
        return name

    def flap(self, one: str, other: str, *, up_ms: int, down_ms: int, name: str | None = None) -> str:
        """Let a link come and go, beginning with its going, until it is healed."""
        assert min(up_ms, down_ms) > 0, "a link that changes all the time lets no time pass"
        name = name or f"{one} <-> {other} flapping"
        self._flap_count += 1
        self._flapping[name] = self._flap_count
        self._flap(name, self._flap_count, (one, other), (down_ms, up_ms))
        return name

    def _flap(self, name: str, number: int, link: tuple[str, str], times_ms: tuple[int, int]) -> None:
        if self._flapping.get(name) != number:
            return
        if name in self._cuts:
            del self._cuts[name]
            self._change(f"up: {name}")
        else:
            self.cut([link[0]], [link[1]], name=name)
        delay_ms = times_ms[0] if name in self._cuts else times_ms[1]
        when_us = self._loop.now_us + delay_ms * 1_000
        self._loop.call_at_us(when_us, self._flap, name, number, link, times_ms, context=Context())

    # What becomes right again.

    def heal(self, name: str) -> None:
        """Take away the trouble of this name; `KeyError` when there is none."""
        found = [table.pop(name, None) for table in (self._cuts, self._slow, self._flapping, self._stalls)]
        if not any(one is not None for one in found):
            raise KeyError(f"no trouble is named {name!r}; there is {self.names}")
        self._change(f"healed: {name}")

    def heal_all(self) -> None:
        self._cuts.clear()
        self._slow.clear()
        self._flapping.clear()
        self._stalls.clear()
        self._change(None)

    def _change(self, line: str | None) -> None:
        if line is not None:
            self._trace(line)
        self._cut_ways = frozenset().union(*self._cuts.values())
        self.has_slow = bool(self._slow)
        self._on_changed()
