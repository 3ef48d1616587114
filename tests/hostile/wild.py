"""Requests that are well formed and make no sense: fields from small pools, so that some of them meet.

A group id is one of a few, so that members join groups of another type; a member id is one that the broker has given,
or not; a topic id is that of a topic, zero, or nobody's; a timeout is usual, the least, the most, or of the wrong sign.
`Pools` knows the values and learns from answers; `wild_message` draws a request. Called by tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

from ottla.types import ZERO_UUID, Uuid
from ottla.wire import Message
from ottla.wire.schema import Field, Schema, Struct, Type

INT_MAX = {"int8": 2**7 - 1, "int16": 2**15 - 1, "int32": 2**31 - 1, "int64": 2**63 - 1, "uint16": 2**16 - 1,
           "uint32": 2**32 - 1}  # fmt: skip
KEPT_MAX = 40
LEARNT = (
    "member_id",
    "producer_id",
    "producer_epoch",
    "member_epoch",
    "generation_id",
    "share_session_epoch",
    "generation_id_or_member_epoch",
    "state_epoch",
    "leader_epoch",
)
SUBSCRIPTION = bytes.fromhex("0001000000010001740000000000000000")
"""What a classic consumer that reads the topic `t` says of itself."""
FAMILIES = ("consumer", "share", "streams", "classic")
GROUPS = [f"{family}-{number}" for family in FAMILIES for number in range(2)]
T = TypeVar("T")


class Pools:
    """The values of fields by their names, for requests that belong together."""

    def __init__(self, chance: Random, topic_id: Uuid) -> None:
        self.chance = chance
        self.topic_id = topic_id
        self.family = ""
        self.sanity = 0.5
        self.learnt: dict[str, list[int | str]] = {name: [] for name in LEARNT}

    def learn(self, answer: Struct) -> None:
        """Remember what later requests may say back."""
        for name in LEARNT:
            value = getattr(answer, name, None)
            if isinstance(value, int | str) and value not in (-1, ""):
                self._keep(name, value)
                if name in ("generation_id", "member_epoch"):
                    self._keep("generation_id_or_member_epoch", value)

    def _keep(self, name: str, value: int | str) -> None:
        kept = self.learnt[name]
        kept.append(value)
        del kept[:-KEPT_MAX]

    def pick(self, sane: Sequence[T], wild: Sequence[T]) -> T:
        return self.chance.choice(sane if self.chance.random() < self.sanity else wild)

    def text(self, name: str) -> str:
        match name:
            case _ if "group_id" in name or name in ("groups", "groups_names", "group_ids"):
                return self.pick([f"{self.family}-0", f"{self.family}-1"], [*GROUPS, "", "long" * 60, "\0", "日本"])
            case _ if "transactional_id" in name:
                return self.pick(["x0", "x1"], ["x2", "", "long" * 60])
            case _ if "instance_id" in name:
                return self.pick(["i0", "i1"], ["", "long" * 60])
            case _ if "member_id" in name or name == "leader":
                known = [value for value in self.learnt["member_id"] if isinstance(value, str)]
                return self.pick(known or ["m0", "m1"], ["", "m0", "m1", "x" * 300])
            case _ if "regex" in name:
                return self.pick(["t.*"], ["", "(", "(a+)+$", "[", "x" * 300, "(?=t)"])
            case _ if "topic" in name:
                return self.pick(["t"], ["nobody", "", "a/b", "x" * 250, "__consumer_offsets"])
            case "name":
                return self.pick(["t", "range"], ["", "nobody", "__consumer_offsets", "x" * 200])
            case "protocol_name" | "server_assignor":
                return self.pick(["range"], ["uniform", "", "nobody", "x" * 200])
            case "protocol_type":
                return self.pick(["consumer"], ["", "nobody", "share"])
            case _ if "filter" in name:
                return self.pick(["", "Empty", "Stable"], ["wrong", "((("])
            case _:
                return self.pick(["0", "a"], ["", "x" * 200, "localhost"])

    def number(self, name: str, kind: str) -> int:
        most = INT_MAX[kind]
        least = 0 if kind.startswith("uint") else -most - 1
        edges = [0, max(-1, least), max(-2, least), most, least]
        if name in self.learnt:
            known = [value for value in self.learnt[name] if isinstance(value, int) and least <= value <= most]
            return self.pick([*known, 0], [1, 2, *edges])
        if "timeout" in name or name.endswith("_ms"):
            return self.pick([6000, 10_000], [1, 100, *edges])
        if "partition" in name or "index" in name:
            return self.pick([0, 1], [2, *edges])
        return self.pick([0, 1, 2, 3, 5], [10, *edges])

    def uuid(self) -> Uuid:
        return self.pick([self.topic_id], [ZERO_UUID, Uuid(self.chance.randbytes(16))])

    def data(self) -> bytes:
        return self.pick([SUBSCRIPTION], [b"", self.chance.randbytes(20), bytes(5000)])


def wild_message(cls: type[Message], version: int, pools: Pools) -> Any:
    """A request; some have one thing wrong with them, some nearly everything."""
    pools.sanity = pools.chance.choice([0.5, 0.9, 0.98, 1.0])
    names = [family for family in FAMILIES if family in cls.__name__.lower()]
    pools.family = names[0] if names else pools.chance.choice(FAMILIES)
    return _struct(cls.schema, version, pools)


def _struct(schema: Schema, version: int, pools: Pools) -> Any:
    held = {}
    for field in schema.fields:
        is_absent = field.tagged.includes(version) and pools.chance.random() < 0.4
        if field.versions.includes(version) and not is_absent:
            held[field.name] = _field(field, version, pools)
    return schema.cls(**held)


def _field(field: Field, version: int, pools: Pools) -> Any:
    if field.nullable.includes(version) and pools.chance.random() < (0.5 if field.default is None else 0.1):
        return None
    return _value(field.type, field.name, version, pools)


def _value(kind: Type, name: str, version: int, pools: Pools) -> Any:
    chance = pools.chance
    if kind.struct is not None:
        return _struct(kind.struct, version, pools)
    if kind.element is not None:
        count = chance.choice((0, 1, 1, 1, 2, 3) if kind.element.struct is not None else (0, 1, 1, 2, 3, 500))
        return [_value(kind.element, name, version, pools) for _ in range(count)]
    match kind.kind:
        case "string":
            return pools.text(name)
        case "bool":
            return chance.random() < 0.5
        case "float64":
            return chance.choice([0.0, -1.5, 1e300, float("nan")])
        case "uuid":
            return pools.uuid()
        case "bytes" | "records":
            return pools.data()
        case _:
            return pools.number(name, kind.kind)
