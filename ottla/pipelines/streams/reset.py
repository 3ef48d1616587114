"""A topology's checkpoint taken back to its beginning, as a whole or some of its steps.

What goes: the checkpoints of the steps' queries, what their sinks remember of written batches, the topics of their
results and the changelogs of their stores. Output topics stay. Promises: the notes say first that it has begun, and go
last, so after one that is interrupted a start is refused until it is done again. No Spark. Called by
`ottla streams-application-reset`.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams import notes
from ottla.pipelines.streams.evolution import RESETTING, check_application, step_name, together
from ottla.pipelines.streams.planning import NOTES
from ottla.pipelines.streams.stores.changelog import changelog_topic

if TYPE_CHECKING:
    from ottla.client import Admin


@dataclass(frozen=True, slots=True)
class Reset:
    """What is to go. `topics` is None where the notes do not tell them: then all that have an internal name."""

    application: str
    checkpoint: Path
    known: dict[str, Any]
    places: tuple[str, ...]
    topics: tuple[str, ...] | None

    @property
    def groups(self) -> list[str]:
        """The groups under which the steps' sinks remember what they have written."""
        return [f"{self.application}-{place}" for place in self.places]

    def begin(self) -> None:
        """Notes what is about to go. A start between here and the end would read what is only half there."""
        others = [place for place in self.known.get(RESETTING, ()) if place not in self.places]
        notes.write_local(self.checkpoint, {**self.known, RESETTING: [*others, *self.places]})

    def forget_batches(self, admin: Admin) -> None:
        """Deletes those groups; one that is not there has nothing to forget."""
        from ottla.errors import GroupIdNotFound

        for group, outcome in admin.delete_groups(self.groups).items():
            if outcome.error is not None and not isinstance(outcome.error, GroupIdNotFound):
                raise PipelineError(f"the sink {group} cannot be made to forget its batches: {outcome.error}")

    def remove_checkpoints(self) -> None:
        """Deletes the directories of the steps."""
        for place in self.places:
            if (self.checkpoint / place).exists():
                shutil.rmtree(self.checkpoint / place)

    def forget_steps(self) -> None:
        """Notes that the steps are new; of a whole checkpoint, deletes the notes."""
        known = notes.read_local(self.checkpoint)
        left = {place: entry for place, entry in known["steps"].items() if place not in self.places}
        if left:
            others = [place for place in known.pop(RESETTING, ()) if place in left]
            begun = {RESETTING: others} if others else {}
            notes.write_local(self.checkpoint, {**known, "steps": left, **begun})
        else:
            gone = self.checkpoint / f".{NOTES}-gone"  # at once: of a part of the notes an older one may be left
            shutil.rmtree(gone, ignore_errors=True)
            (self.checkpoint / NOTES).rename(gone)
            shutil.rmtree(gone)


def plan_reset(application: str, checkpoint: str, steps: Collection[str] = ()) -> Reset:
    """What a reset of these steps would take, of all without any; refused where steps would be torn apart."""
    home = notes.local(checkpoint)
    known = notes.read_local(home)
    check_application(known, application)
    entries = known["steps"]
    old = [place for place, entry in entries.items() if isinstance(entry, str)]
    if not steps:
        return Reset(application, home, known, tuple(entries), None if old else _topics(application, entries, entries))
    by_name = {**{place: place for place in entries}, **{step_name(place, entries[place]): place for place in entries}}
    unknown = [step for step in steps if step not in by_name]
    if unknown:
        raise PipelineError(f"{checkpoint} has no step {', '.join(unknown)}: it has {', '.join(sorted(entries))}")
    if old:
        raise PipelineError(
            f"{checkpoint} was made by a version of Ottla that did not note which steps read each other: start it once "
            "with this one, or reset all of it, without --steps"
        )
    places = together({by_name[step] for step in steps}, entries)
    missing = [step_name(place, entries[place]) for place in places if place not in {by_name[step] for step in steps}]
    if missing:
        listed = ",".join(step_name(place, entries[place]) for place in places)
        raise PipelineError(
            f"{', '.join(missing)} and what you reset read each other's results, which are read from their beginning "
            f"then: reset them together with --steps {listed}"
        )
    return Reset(application, home, known, tuple(places), _topics(application, entries, places))


def _topics(application: str, entries: Mapping[str, Any], places: Iterable[str]) -> tuple[str, ...]:
    chosen = [entries[place] for place in places]
    topics = [topic for entry in chosen for topic in entry["topics"]]
    return (*topics, *(changelog_topic(application, store) for entry in chosen for store in entry["changelogs"]))
