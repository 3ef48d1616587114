"""How a topology differs from the one that a checkpoint was made by: what keeps its state, and what needs a reset.

A step is known by its name, or its store's, and one without either by its number and the steps in front of it. So
steps without state come and go around named ones. `trace` finds where a checkpoint has each step, and `compare` what
became of it. Pure: no Spark, no broker. Called by `running`, before a start, and by `ottla pipeline plan`.
"""

from __future__ import annotations

import enum
import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.function_text import same
from ottla.pipelines.streams.graph import Custom, Source, Topology
from ottla.pipelines.streams.planning import Query, has_state, own_topics
from ottla.pipelines.streams.shape import KIND, READS, STAMPED, STORE, UNKNOWN, VERSIONED, Shape, path, shape, signature

VERSION = 2
"""Of the notes. The first had no number, and a line of `signature` for each step."""
Entry = dict[str, Any] | str
"""What is noted of a step; by the first version, a line."""
TYPE = " type"
"""How the lines end that only Spark knows."""
NEVER = ("step", KIND, READS, STAMPED, VERSIONED)
"""What cannot be gone on with by anybody's word: the state is of another kind, or the offsets are of other topics."""
_READ = re.compile(r"/.*?/(?=$|\+| \| |, )|[^/+,| ]+| \| |, |\+")
MISSED = "missed"
"""Where the notes have the topics between steps that a step would read from, and that nobody writes without it."""
RESETTING = "resetting"
"""Where the notes have the places of the steps whose reset has begun and is not done."""
_OLD_STORE = re.compile(r"Aggregate\((.+?), (?:None|\w+Windows\()")


class Fate(enum.Enum):
    """What becomes of a step."""

    KEPT = "kept"
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Change:
    """One thing about a step that is not as it was."""

    what: str
    was: str
    now: str


@dataclass(frozen=True, slots=True)
class Step:
    """A step, before and now. `place` is what its checkpoint and its topics are named after."""

    name: str
    place: str
    fate: Fate
    has_state: bool
    needs_reset: bool = False
    changes: tuple[Change, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Evolution:
    """All steps, and those that have to be reset together: what one writes to another is read from its beginning."""

    application: str
    steps: tuple[Step, ...]
    reset: tuple[str, ...]
    unjudged: str = ""
    is_reset_whole: bool = False
    """Whether only all of it can be reset: an old checkpoint does not say which steps read each other."""

    def command(self, checkpoint: str, bootstrap: str = "") -> str:
        """The command that resets what needs it."""
        return _command(self.application, checkpoint, () if self.is_reset_whole else self.reset, bootstrap)

    def check(self, checkpoint: str) -> None:
        """Refuses a start that would misread or lose state: in short, and with the command that says it in full."""
        wrong = [step for step in self.steps if step.needs_reset]
        if wrong:
            first = wrong[0]
            why = _first_reason(first)
            can = not any(change.what in NEVER for change in first.changes)
            accept = f"; start(accept=[{first.name!r}]) goes on with the state as it is" if can else ""
            more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            raise PipelineError(
                f"the topology has changed, and the state of {first.name} cannot be gone on with{more}: {why}. "
                f"`ottla pipeline plan FILE --checkpoint {shlex.quote(checkpoint)}` shows every difference, what keeps "
                f"its state and how to reset the rest{accept}"
            )


def notes(
    topology: Topology, queries: list[Query], types: Mapping[str, Mapping[str, str]] | None = None
) -> dict[str, Any]:
    """What a checkpoint keeps of its steps, by their places; `types` are lines that only Spark knows."""
    return {
        query.name: {
            "name": query.identity,
            "number": query.root.number if query.root.is_numbered else "",
            "state": has_state(query),
            "shape": {**shape(topology, query), **(types or {}).get(query.name, {})},
            "source": isinstance(query.work, Source),
            "path": path(query),
            "topics": list(own_topics(topology, [query])),
            "changelogs": _logged(query),
        }
        for query in queries
    }


def check_application(known: Mapping[str, Any], application: str) -> None:
    """Refuses a checkpoint of another application."""
    if known["application"] != application:
        raise PipelineError(
            f"the checkpoint belongs to {known['application']}, not to {application}: give each its own"
        )


def check_no_reset(known: Mapping[str, Any], checkpoint: str) -> None:
    """Refuses a checkpoint of which a reset has begun: some of what the steps wrote may be there, and some not."""
    begun = sorted(known.get(RESETTING, ()))
    if begun:
        is_whole = set(begun) == set(known["steps"])
        command = _command(known["application"], checkpoint, () if is_whole else begun)
        raise PipelineError(f"a reset of {', '.join(begun)} was interrupted: do it again with `{command}`")


def _command(application: str, checkpoint: str, steps: Collection[str], bootstrap: str = "") -> str:
    words = ["ottla", "streams-application-reset", "--application-id", application]
    words += ["--bootstrap-server", bootstrap] if bootstrap else []
    words += ["--checkpoint", checkpoint]
    return shlex.join([*words, "--steps", ",".join(steps)] if steps else words)


def _logged(query: Query) -> list[str]:
    """The stores whose changes go to a changelog."""
    if isinstance(query.work, Custom):
        return [spec.name for spec in query.work.operator.stores if spec.logged]
    return [query.identity] if query.root.has_named_store else []


def trace(known: Mapping[str, Any], topology: Topology) -> dict[str, str]:
    """Where a checkpoint has the steps of a topology, by identity, as far as that is not what they are called today."""
    entries: Mapping[str, Entry] = known["steps"]
    by_name = {step_name(place, entry): place for place, entry in entries.items()}
    numbers = {place for place, entry in entries.items() if _is_numbered(place, entry)}
    places: dict[str, str] = {}
    for node in topology.nodes.values():
        found = by_name.get(node.identity)
        if isinstance(node.work, Source) and (found is None or node.is_numbered):
            found = _place_of_source(node.work, found, entries, places.values())
        elif found is None and node.number in numbers and not node.has_named_store:
            found = by_name.get(node.number)  # it had no name before
        if found is not None and found not in places.values():
            places[node.identity] = found
    taken = {*entries, *places.values()}
    for node in topology.nodes.values():
        if node.identity not in places and node.identity in taken:
            places[node.identity] = _free(node.identity, taken)
            taken.add(places[node.identity])
    return {identity: place for identity, place in places.items() if identity != place}


def compare(
    known: Mapping[str, Any],
    topology: Topology,
    queries: list[Query],
    *,
    accept: Collection[str] = (),
    steps: dict[str, Any] | None = None,
) -> Evolution:
    """What became of each step. `topology` and its queries have the places that `trace` found.

    The steps in `accept` go on with the state they have, whatever else of them has changed. `steps` are the new `notes`
    with types, where they are known.
    """
    entries: Mapping[str, Entry] = known["steps"]
    new = notes(topology, queries) if steps is None else steps
    found, unjudged = [], []
    for query in queries:
        entry = entries.get(query.name)
        if entry is None:
            found.append(Step(query.identity, query.name, Fate.ADDED, has_state(query)))
            continue
        if isinstance(entry, str) and has_state(query):
            unjudged.append(query.identity)
        changes = _changes(entry, new[query.name], query)
        needs = any(query.identity not in accept or change.what in NEVER for change in changes)
        fate = Fate.CHANGED if changes else Fate.KEPT
        found.append(Step(query.identity, query.name, fate, has_state(query), needs, changes, _note(changes)))
    found += [_removed(place, entry, accept) for place, entry in entries.items() if place not in new]
    told = ""
    unread = [new[query.name]["name"] for query in queries if UNKNOWN in new[query.name]["shape"].values()]
    if unjudged:
        told = (
            "the checkpoint was made by a version of Ottla that did not note expressions, keys and serdes: whether "
            f"those of {', '.join(unjudged)} have changed cannot be judged"
        )
    elif unread:
        told = (
            f"the source of functions of {', '.join(unread)} cannot be read: whether they have changed cannot be judged"
        )
    reset = _together(found, entries, new)
    is_whole = bool(reset) and any(isinstance(entry, str) for entry in entries.values())
    return Evolution(topology.application, tuple(found), tuple(entries) if is_whole else reset, told, is_whole)


def merged(known: Mapping[str, Any], new: Mapping[str, Any], accept: Collection[str]) -> dict[str, Entry]:
    """The steps that a checkpoint notes from now on: those of the topology, and those whose state only stays there."""
    gone = {place: entry for place, entry in known["steps"].items() if place not in new}
    left = {
        place: {**entry, "left": True} if isinstance(entry, dict) and entry["name"] in accept else entry
        for place, entry in gone.items()
    }
    for place, entry in left.items():
        missed = _missed(entry, known["steps"], new) if isinstance(entry, dict) else set()
        if missed and isinstance(entry, dict):
            left[place] = {**entry, MISSED: sorted({*entry.get(MISSED, ()), *missed})}
    return {**left, **new}


def _missed(entry: dict[str, Any], was: Mapping[str, Entry], new: Mapping[str, Any]) -> set[str]:
    """The topics that a step which is gone reads, and that a step which goes on writes no more."""
    written = {topic for one in new.values() for topic in one["topics"]}
    stopped = {
        topic
        for place, one in was.items()
        if isinstance(one, dict) and place in new
        for topic in one["topics"]
        if topic not in written
    }
    return stopped & _reads(entry)


def _reads(entry: dict[str, Any]) -> set[str]:
    """The topics between steps that it reads, among others."""
    return set(re.split(r" \| |, ", entry["shape"].get(READS, "")))


def _changes(entry: Entry, new: Mapping[str, Any], query: Query) -> tuple[Change, ...]:
    if isinstance(entry, str):
        now = signature(query)
        return () if entry == now or not has_state(query) else (Change("step", entry, now),)
    changes = list(_differences(entry["shape"], new["shape"]))
    # A number alone does not say that it is the same step: another one may have moved to it.
    if entry["state"] and entry["number"] and query.root.is_numbered and entry["path"] != new["path"]:
        changes.append(Change("steps in front", " > ".join(entry["path"]), " > ".join(new["path"])))
    if entry.get(MISSED):
        topics = ", ".join(entry[MISSED])
        changes.append(Change("input", "complete", f"without what {topics} would have had while the step was away"))
    return tuple(changes)


def _differences(was: Shape, now: Shape) -> list[Change]:
    found = []
    for what in dict.fromkeys((*was, *now)):
        before, after = was.get(what, ""), now.get(what, "")
        if what.startswith(STORE) and not (before and after):
            continue  # a processor's store may come or go
        if (what == KIND or what.endswith(TYPE)) and not (before and after):
            continue  # an earlier version did not note it, or nobody has asked Spark
        if what == READS and _only_adds_topics(before, after):
            continue
        if UNKNOWN not in (before, after) and not same(before, after):
            found.append(Change(what, before, after))
    return found


def _removed(place: str, entry: Entry, accept: Collection[str]) -> Step:
    name, state = step_name(place, entry), _has_state(entry)
    left = isinstance(entry, dict) and entry.get("left", False)
    if left or not state or not _is_numbered(place, entry) or name in accept:
        note = "its state stays in the checkpoint, and goes on if the step comes back" if state else ""
        return Step(name, place, Fate.REMOVED, state, note=note)
    note = (
        "a step without a name is known by its number, which changes with the steps before it: to keep the state, "
        "first name the step (named=, or name= of a join) in the topology as it was, start it once, and change the "
        "topology then"
    )
    return Step(name, place, Fate.REMOVED, state, needs_reset=True, note=note)


def _together(steps: list[Step], was: Mapping[str, Entry], now: Mapping[str, Any]) -> tuple[str, ...]:
    return together({step.place for step in steps if step.needs_reset}, {**was, **now})


def together(places: Collection[str], entries: Mapping[str, Entry]) -> tuple[str, ...]:
    """The places, and those of all steps that they are joined to by topics of the application."""
    known = {place: entry for place, entry in entries.items() if isinstance(entry, dict)}
    between = {topic for entry in known.values() for topic in entry["topics"]}
    touches = {place: {*entry["topics"], *(between & _reads(entry))} for place, entry in known.items()}
    wanted = set(places)
    while True:
        joined = {topic for place in wanted for topic in touches.get(place, ())}
        more = {place for place, topics in touches.items() if topics & joined} - wanted
        if not more:
            return tuple(sorted(wanted))
        wanted |= more


def _place_of_source(
    source: Source, numbered: str | None, entries: Mapping[str, Entry], used: Collection[str]
) -> str | None:
    """Where the offsets of a source's topics are, whatever number it has: of these very topics, or of some of them.

    Of several sources of the same topics the first one keeps the first place.
    """
    if isinstance(entries.get(numbered or ""), str):
        return numbered  # an old line does not say which topics they were
    wanted = set(source.reads)
    known = {
        place: set().union(*_sources(entry["shape"][READS]))
        for place, entry in entries.items()
        if isinstance(entry, dict) and entry["source"] and entry["number"] and place not in used
    }
    mine = [place for place, topics in known.items() if topics == wanted]
    if mine:
        return numbered if numbered in mine else mine[0]
    return numbered if known.get(numbered or "", set()) & wanted else None


def _sources(reads: str) -> list[set[str]]:
    """The topics of each source of a step, as `READS` tells them: a pattern, between slashes, is one of them."""
    found: list[set[str]] = [set()]
    for one in _READ.finditer(reads):
        if one[0] in (" | ", ", "):
            found.append(set())
        elif one[0] != "+":
            found[-1].add(one[0])
    return found


def _only_adds_topics(was: str, now: str) -> bool:
    """Whether the sources are as they were but for more topics: those are read from their beginning."""
    before, after = _sources(was), _sources(now)
    return len(before) == len(after) and all(one <= other for one, other in zip(before, after, strict=True))


def step_name(place: str, entry: Entry) -> str:
    """What a step is called. Of an old line only the name of a store is told, if that was named."""
    if isinstance(entry, dict):
        return str(entry["name"])
    store = _OLD_STORE.match(entry)
    return store[1] if store and store[1] != f"{place}-STATE-STORE" else place


def _is_numbered(place: str, entry: Entry) -> bool:
    if isinstance(entry, dict):
        return bool(entry["number"])
    return step_name(place, entry) == place and re.search(r"-\d{10}$", place) is not None


def _has_state(entry: Entry) -> bool:
    return bool(entry["state"]) if isinstance(entry, dict) else entry not in ("Source", "Repartition", "Pass")


def _free(name: str, taken: Collection[str]) -> str:
    number = 2
    while f"{name}-{number}" in taken:
        number += 1
    return f"{name}-{number}"


def _note(changes: tuple[Change, ...]) -> str:
    if any(change.what == READS for change in changes):
        return "the offsets in its checkpoint are of other topics"
    return ""


def _first_reason(step: Step) -> str:
    if not step.changes:
        return f"it is not in the topology any more, and {step.note}"
    change = step.changes[0]
    return f"its {change.what} was {change.was or 'none'} and is {change.now or 'none'}"
