"""A pipeline, described: where records come from, what happens to them, where they go, and what becomes of bad ones.

Promises: a `Pipeline` that exists is one whose parts, options and types are right by the table in `kinds`; whatever is
wrong is told all at once, each with its line in the file, what would be right and the nearest name. Fields are known
only to Spark, which checks them before the first record is read. Nothing here imports Spark. Called by `ottla pipeline`
and by Python files that describe a pipeline, with the words that a YAML file has.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ottla.pipelines.connect import functions, path_format, smt_check
from ottla.pipelines.connect.errors import Problem, SpecError, listed, nearest
from ottla.pipelines.connect.graph import RECORDS, Graph, graph
from ottla.pipelines.connect.jdbc_dialects import DIALECTS, dialect_of
from ottla.pipelines.connect.kinds import (
    BY_SCHEMA,
    CDC,
    DEAD_LETTER,
    ERRORS,
    RESTART,
    SCHEMA_FOR,
    SINKS,
    SOURCES,
    TRANSFORMS,
    Kind,
    Option,
    Type,
)
from ottla.pipelines.connect.restart import Restart
from ottla.pipelines.connect.smt_kinds import CONDITION, GONE, PREDICATES, SMTS
from ottla.pipelines.connect.yaml_file import Lines, read_yaml
from ottla.pipelines.connect.yaml_file import Path as Place
from ottla.pipelines.source.offsets import NO_LIMIT

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""A name is also that of a directory, and part of a transactional id."""
SLOT_NAME = re.compile(r"[a-z0-9_]{1,63}")
"""A name of a replication slot, as PostgreSQL takes it."""
INTERVAL = re.compile(r"(\d+) (millisecond|second|minute|hour)s?")
UNIT_S = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0}
AVAILABLE_NOW = "available-now"
GROWS_BY = ("incrementing", "timestamp")
"""Options of a source `jdbc` that make a stream of it; without them it ends, and the pipeline is done."""
TOP = (
    "name", "source", "sources", "transforms", "predicates", "sink", "sinks", "errors", "dead-letter", "trigger",
    "checkpoint", "restart", "spark",
)  # fmt: skip
ROLES = {"source": "sources", "sink": "sinks"}
"""One part of a role, and several of them by name."""
MAIN = "main"
"""The name of a lone sink."""
DIRECTORIES = ("json", "csv", "parquet", "text", "delta")
"""Sinks that keep a log of what they have written in their directory, and so have it for themselves."""
PART_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
"""A source is a table of queries, and a sink a directory of the checkpoint."""
SHORT = {"python": "function", "dataframe": "function", "sql": "query"}
"""What a transform means that has one text in the place of its options."""
ROUTERS = ("route", "RegexRouter", "TimestampRouter")
"""Transforms that choose a topic."""
DEBEZIUM = "io.debezium.transforms."
"""The package of Debezium's transforms."""

Function = functions.Function


@dataclass(frozen=True, slots=True)
class Condition:
    """Which records a transform of Kafka Connect is for: those that a predicate holds for, or those it does not."""

    kind: str
    options: Mapping[str, Any]
    negate: bool

    @property
    def is_for_values_only(self) -> bool:
        """Whether it leaves out tombstones and nothing else."""
        return self.kind == "RecordIsTombstone" and self.negate


@dataclass(frozen=True, slots=True)
class Part:
    """A source, a sink or a transform: its kind, and what it was told, with defaults filled in."""

    kind: str
    options: Mapping[str, Any]
    function: Function | None = None
    """The function of a `python` or `dataframe` transform that was given as one."""
    condition: Condition | None = None

    @property
    def is_connect(self) -> bool:
        """Whether it is a transform of Kafka Connect, by its name there."""
        return smt_check.canonical(self.kind) is not None

    @property
    def is_growing(self) -> bool:
        """Whether it is a table that is read as it grows."""
        return self.kind == "jdbc" and not self.options.keys().isdisjoint(GROWS_BY)

    @property
    def has_spool(self) -> bool:
        """Whether its records are kept in a directory until one query has read them, and no other could."""
        return self.kind == "http" or self.is_growing

    @property
    def spool_owner(self) -> str:
        return "source http" if self.kind == "http" else "growing source jdbc"

    @property
    def has_topics(self) -> bool:
        """Whether records of such a source have topics, offsets and keys of their own."""
        return self.kind in ("topic", CDC)

    def passed(self, prefix: str) -> dict[str, str]:
        """The options that begin so, which go on as they are."""
        return {name: str(value) for name, value in self.options.items() if name.startswith(prefix)}


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Where bad records go."""

    topic: str
    servers: str


@dataclass(frozen=True, slots=True)
class Sql:
    """A text of the file that Spark parses."""

    kind: Literal["schema", "type", "expression", "pattern", "query"]
    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class _Parsed:
    name: str
    sources: Mapping[str, Part]
    sinks: Mapping[str, Part]
    graph: Graph
    places: Mapping[str, Place]
    transforms: tuple[Part, ...]
    errors: str
    dead_letter: DeadLetter | None
    trigger: str | None
    checkpoint: str | None
    restart: Restart
    spark: Mapping[str, str]
    lines: Lines = field(repr=False)


class Pipeline:
    """A whole pipeline. Its arguments are the words of the file; a transform may also be a function.

    `Pipeline("orders", source={"type": "topic", ...}, transforms=[{"mask": {"fields": "card"}}, clean], sink={...})`
    """

    def __init__(
        self,
        name: str,
        *,
        source: Mapping[str, object] | None = None,
        sink: Mapping[str, object] | None = None,
        sources: Mapping[str, Mapping[str, object]] | None = None,
        sinks: Mapping[str, Mapping[str, object]] | None = None,
        transforms: Sequence[Mapping[str, object] | Function] = (),
        predicates: Mapping[str, object] | None = None,
        errors: str = "stop",
        dead_letter: Mapping[str, object] | None = None,
        trigger: str | None = None,
        checkpoint: str | None = None,
        restart: Mapping[str, object] | None = None,
        spark: Mapping[str, object] | None = None,
    ) -> None:
        given = {
            "name": name, "source": source, "sources": sources, "sink": sink, "sinks": sinks,
            "transforms": list(transforms), "predicates": predicates, "errors": errors,
            "dead-letter": dead_letter, "trigger": trigger, "checkpoint": checkpoint,
            "restart": restart, "spark": spark,
        }  # fmt: skip
        whole = {key: value for key, value in given.items() if value is not None}
        self._take(_Check(Lines(f"pipeline {name}")).pipeline(whole))
        self.file = ""

    @property
    def directory(self) -> str:
        """Where the file stands, beside which schemas and functions are looked for; without a file, right here."""
        return str(Path(self.file).parent.resolve()) if self.file else ""

    def _take(self, parsed: _Parsed) -> None:
        self.name = parsed.name
        self.sources = parsed.sources
        """By name; a lone one is `records`."""
        self.sinks = parsed.sinks
        """By name; a lone one is `main`."""
        self.topics = [part for part in (*parsed.sinks.values(), *parsed.sources.values()) if part.kind == "topic"]
        """All parts that are topics, the sinks first."""
        self.graph = parsed.graph
        self._places = parsed.places
        self.transforms = parsed.transforms
        self.errors = parsed.errors
        self.dead_letter = parsed.dead_letter
        self.trigger = parsed.trigger
        self.checkpoint = parsed.checkpoint
        self.restart = parsed.restart
        self.spark = parsed.spark
        self._lines = parsed.lines

    @classmethod
    def _of(cls, parsed: _Parsed, file: str) -> Pipeline:
        made = cls.__new__(cls)
        made._take(parsed)
        made.file = file
        return made

    @property
    def source(self) -> Part:
        """The lone source."""
        assert len(self.sources) == 1, "who asks for the one source has one, or the pipeline `of_source`"
        return next(iter(self.sources.values()))

    @property
    def sink(self) -> Part:
        """The lone sink."""
        assert len(self.sinks) == 1, "who asks for the one sink has one, or the pipeline `of_sink`"
        return next(iter(self.sinks.values()))

    def placed_parts(self) -> list[tuple[Place, Part]]:
        """The sources and the sinks, each with its place in the file."""
        return [
            ((several, name) if several in self._places else (role,), part)
            for role, several in ROLES.items()
            for name, part in getattr(self, several).items()
        ]

    @property
    def has_names(self) -> bool:
        """Whether its sources or its sinks are given by name."""
        return not self._places.keys().isdisjoint(ROLES.values())

    @property
    def is_straight(self) -> bool:
        """Whether records go from one source by transforms of one at a time to one sink."""
        return not self.has_names and all(part.kind != "sql" for part in self.transforms)

    @property
    def streams(self) -> list[str]:
        """The names of the sources that are read as they grow."""
        return [name for name, part in self.sources.items() if not self.is_table(name)]

    def is_table(self, name: str) -> bool:
        """Whether a source is read as it is, for queries, and not as a stream."""
        return _is_table(self.sources[name], has_names="sources" in self._places)

    def of_source(self, name: str) -> Pipeline:
        """The pipeline with this source alone."""
        return self._of_part("source", name)

    def of_sink(self, name: str) -> Pipeline:
        """The pipeline with this sink alone."""
        return self._of_part("sink", name)

    def _of_part(self, role: str, name: str) -> Pipeline:
        made = copy(self)
        parts: Mapping[str, Part] = getattr(self, ROLES[role])
        setattr(made, ROLES[role], {name: parts[name]})
        if ROLES[role] in self._places:
            made._places = {**self._places, role: (ROLES[role], name)}
        return made

    @property
    def is_bounded(self) -> bool:
        """Whether the source ends by itself."""
        if "sources" in self._places:
            return False  # a table of several is static, and something else is a stream
        return self.source.kind == "jdbc" and not self.source.is_growing

    @property
    def has_shared_outcome(self) -> bool:
        """Whether good and bad records are written by one query, and so in one transaction."""
        return (
            self.dead_letter is not None
            and self.is_straight
            and self.sink.kind == "topic"
            and self.sink.options["bootstrap.servers"] == self.dead_letter.servers
        )

    def schema_file(self, role: str) -> str | bytes | None:
        """What the `schema-file` of the source or the sink has: text, or the bytes of a descriptor set."""
        part: Part = getattr(self, role)
        if "schema-file" not in part.options:
            return None
        place = (role, "schema-file")
        path = Path(self.directory, part.options["schema-file"])
        try:
            data = path.read_bytes()
            if part.options["value"] == "protobuf" and path.suffix != ".proto":
                return data
            text = data.decode("utf-8")
            if part.options["value"] == "avro":
                json.loads(text)
        except OSError as error:
            raise self.wrong(place, f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise self.wrong(place, f"{path} is not text in UTF-8") from None
        except json.JSONDecodeError as error:
            raise self.wrong(place, f"{path} is no Avro schema, which is JSON: {error}") from None
        return text

    def sql(self) -> list[Sql]:
        """All that Spark parses, in the order of the file."""
        found = [sql for place, part in self.placed_parts() if "sink" not in str(place[0]) for sql in _sql(part, place)]
        return found + [
            sql for index, part in enumerate(self.transforms) for sql in _sql(part, ("transforms", index, part.kind))
        ]

    def _with_its_files(self) -> Pipeline:
        """The pipeline itself, after a look at the files that it names."""
        problems = []
        for index, part in enumerate(self.transforms):
            if part.function is None and "function" in part.options:
                problem = functions.problem(part.options["function"], self.directory)
                if problem is not None:
                    problems += self.wrong(("transforms", index, part.kind, "function"), problem).problems
        alone = [self.of_source(name) for name in self.sources], [self.of_sink(name) for name in self.sinks]
        for role, pipelines in zip(ROLES, alone, strict=True):
            for pipeline in pipelines:
                try:
                    pipeline.schema_file(role)
                except SpecError as error:
                    problems += error.problems
        if problems:
            raise SpecError(problems)
        return self

    def wrong(self, place: Place, message: str) -> SpecError:
        """A mistake that only Spark could see, at its line in the file."""
        if place and place[0] in self._places:
            place = (*self._places[str(place[0])], *place[1:])
        return SpecError([self._lines.problem(place, f"{spelled(place)}: {message}")])


def _sql(part: Part, place: Place) -> Iterator[Sql]:
    """What Spark parses of the options of a part."""
    if part.kind == "sql":
        yield Sql("query", part.options["query"], (*place, "query"))
    if part.kind == "cast":
        for name, type_ in part.options["fields"].items():
            yield Sql("type", type_, (*place, "fields", name))
    for name in ("schema", "key-schema"):
        if name in part.options:
            yield Sql("schema", part.options[name], (*place, name))
    for name in ("sql", "where"):
        if name in part.options:
            yield Sql("expression", part.options[name], (*place, name))
    if part.kind == "RegexRouter":
        yield Sql("pattern", part.options["regex"], (*place, "regex"))
    if part.condition is not None and "pattern" in part.condition.options:
        yield Sql("pattern", part.condition.options["pattern"], (*place, "predicate"))


def load(file: str | Path) -> Pipeline:
    """The pipeline of a YAML file, or of the variable `pipeline` of a Python file."""
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError([Problem(str(file), 0, f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise SpecError([Problem(str(file), 0, "is not text in UTF-8")]) from None
    if path.suffix == ".py":
        return _from_python(path, text)
    values, lines = read_yaml(text, str(file))
    return Pipeline._of(_Check(lines).pipeline(values), str(path.resolve()))._with_its_files()


def _from_python(path: Path, text: str) -> Pipeline:
    """Run the file; what it raises is told with the line it was raised on."""
    names: dict[str, object] = {"__name__": "ottla_pipeline", "__file__": str(path)}
    sys.path.insert(
        0, str(path.resolve().parent)
    )  # as for a script: it may import what stands beside it, when it runs as well
    try:
        exec(compile(text, str(path), "exec"), names)
    except SpecError as error:
        line = _line_in(path, error)
        raise SpecError([Problem(str(path), line, problem.message) for problem in error.problems]) from None
    except SyntaxError as error:
        raise SpecError([Problem(str(path), error.lineno or 0, f"not Python: {error.msg}")]) from None
    except Exception as error:  # the file is the user's, and so is whatever it raises
        raise SpecError([Problem(str(path), _line_in(path, error), f"{type(error).__name__}: {error}")]) from error
    found = names.get("pipeline")
    if not isinstance(found, Pipeline):
        raise SpecError([Problem(str(path), 0, "has no `pipeline = Pipeline(...)`")])
    found.file = str(path.resolve())
    return found._with_its_files()


def _line_in(path: Path, error: BaseException) -> int:
    """The line of the file that an error came over last; 0 when it came over none."""
    import traceback

    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return (lines[-1] if lines else 0) or 0


def interval_s(trigger: str) -> float:
    """A trigger's time in seconds."""
    found = INTERVAL.fullmatch(trigger)
    assert found is not None, "the file was checked"
    return int(found[1]) * UNIT_S[found[2]]


def spelled(place: Place) -> str:
    """`transforms[1].mask.fields`."""
    text = ""
    for step in place:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


class _Check:
    """Reads plain values against the table, and gathers what is wrong."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._problems: list[Problem] = []
        self._places: dict[str, Place] = {}
        """Where the source and the sink stand that are looked at; nothing where the file has one of each."""

    def pipeline(self, values: object) -> _Parsed:
        if not isinstance(values, Mapping):
            self._wrong((), "a pipeline file is a map that begins with `name:`, `source:` and `sink:`")
            raise SpecError(self._problems)
        values, self._lines, problems = smt_check.unfolded(values, self._lines)
        self._problems += problems
        for name in values:
            if name not in TOP:
                self._wrong((name,), f"there is no {name} in a pipeline: {nearest(name, TOP)}")
        name = self._text(values, "name", required=True) or ""
        if name and not NAME.fullmatch(name):
            self._wrong(
                ("name",), "a name is up to 100 letters, digits, '.', '_' and '-', and begins with a letter or digit"
            )
        sources = self._parts(values, "source", SOURCES)
        predicates = self._predicates(values.get("predicates", {}))
        transforms = self._transforms(values.get("transforms", []), predicates)
        asked = {name: self._from(place, given) for name, (place, given) in self._given(values, "sink").items()}
        sinks = self._parts(values, "sink", SINKS)
        errors = self._text(values, "errors") or "stop"
        if errors not in ERRORS:
            self._wrong(("errors",), f"errors is one of {listed(ERRORS)}, and not {errors}")
        trigger = self._text(values, "trigger")
        if trigger is not None and trigger != AVAILABLE_NOW and not INTERVAL.fullmatch(trigger):
            self._wrong(("trigger",), f"a trigger is {AVAILABLE_NOW} or a time such as 10 seconds, and not {trigger}")
        spark = self._value(("spark",), values.get("spark", {}), Option(Type.MAP, ""), "spark")
        checkpoint = self._text(values, "checkpoint")
        restart = self._restart(values.get("restart", {}))
        places: dict[str, Place] = {role: (role,) for role in ROLES.values() if role in values}
        found = Graph({}, {})
        if not self._problems:
            found = self._graph(sources, transforms, sinks, asked, places)
        if not self._problems:
            self._all_together(sources, sinks, transforms, found, places)
        dead_letter = self._dead_letter(
            values, errors, sources, sinks, has_query=any(part.kind == "sql" for part in transforms)
        )
        if self._problems:
            raise SpecError(list(dict.fromkeys(self._problems)))
        return _Parsed(
            name, sources, sinks, found, places, tuple(transforms), errors, dead_letter, trigger, checkpoint, restart,
            spark or {}, self._lines,
        )  # fmt: skip

    def _given(self, values: Mapping[str, object], role: str) -> dict[str, tuple[Place, object]]:
        """The parts of a role as the file has them: each with its name and its place."""
        several = ROLES[role]
        if several not in values:
            return {RECORDS if role == "source" else MAIN: ((role,), values.get(role))}
        given = values[several]
        if not isinstance(given, Mapping):
            return {}
        return {str(name): ((several, str(name)), part) for name, part in given.items()}

    def _parts(self, values: Mapping[str, object], role: str, kinds: Mapping[str, Kind]) -> dict[str, Part]:
        several = ROLES[role]
        if several in values:
            if role in values:
                self._wrong((several,), f"a pipeline has a {role} or {several}, and this one has both")
            if not isinstance(values[several], Mapping) or not values[several]:
                self._wrong((several,), f"{several} is a map of names, and not {shown(values[several])}")
        found = {}
        for name, (place, value) in self._given(values, role).items():
            if several in values and not PART_NAME.fullmatch(name):
                self._wrong(place, f"the name of a {role} is letters, digits and '_', and not {shown(name)}")
            if several in values and role == "source" and name.lower() == RECORDS:
                self._wrong(place, f"{RECORDS} is the name of all records: call the source by another")
            part = self._part(value, place, role, kinds)
            if part is not None:
                found[name] = part
        return found

    def _from(self, place: Place, value: object) -> tuple[str, ...]:
        """The records that a sink asks for."""
        if not isinstance(value, Mapping) or "from" not in value:
            return ()
        return self._value((*place, "from"), value["from"], Option(Type.NAMES, ""), "from") or ()

    def _restart(self, value: object) -> Restart:
        if not isinstance(value, Mapping):
            self._wrong(("restart",), f"restart is a map of its options, and not {shown(value)}")
            return Restart()
        given = self._options(value, ("restart",), "restart", Kind("", RESTART))
        backoff = given.get("backoff", RESTART["backoff"].default)
        if not INTERVAL.fullmatch(backoff):
            self._wrong(("restart", "backoff"), f"restart: backoff is a time such as 10 seconds, and not {backoff}")
            return Restart()
        return Restart(given.get("on-failure", False), given.get("max", 1), interval_s(backoff))

    def _graph(
        self,
        sources: Mapping[str, Part],
        transforms: Sequence[Part],
        sinks: Mapping[str, Part],
        asked: Mapping[str, tuple[str, ...]],
        places: Mapping[str, Place],
    ) -> Graph:
        def place_of(name: str) -> Place:
            if name in sources:
                return ("sources", name) if "sources" in places else ("source",)
            return next(place for place, _, result in queries if result == name)

        tables = [name for name, part in sources.items() if _is_table(part, has_names="sources" in places)]
        if "sources" not in places and "static" in next(iter(sources.values())).options:
            self._wrong(("source", "static"), "static is for one of several sources, which a `sql` reads")
        queries: list[tuple[Place, str, str | None]] = [
            (("transforms", index, "sql"), part.options["query"], part.options.get("as"))
            for index, part in enumerate(transforms)
            if part.kind == "sql"
        ]
        streams = [name for name in sources if name not in tables]
        if not streams:
            self._wrong(("sources",), "all sources are static: one at least is a stream")
            return Graph({}, {})
        of = {name: (("sinks", name) if "sinks" in places else ("sink",), asked[name]) for name in sinks}
        return graph(streams, tables, queries, of, place_of, self._wrong)

    def _all_together(
        self,
        sources: Mapping[str, Part],
        sinks: Mapping[str, Part],
        transforms: Sequence[Part],
        found: Graph,
        places: Mapping[str, Place],
    ) -> None:
        """What each part allows and the whole does not, for each sink and each of its sources."""
        outputs: dict[tuple[object, ...], str] = {}
        for name, sink in sinks.items():
            for stream in dict.fromkeys(found.sources[name]):
                self._places = {
                    role: (ROLES[role], part)
                    for role, part in (("source", stream), ("sink", name))
                    if ROLES[role] in places
                }
                self._together(sources[stream], sink, transforms)
            output = _output(sink)
            if output is not None and output in outputs:
                self._wrong(("sink",), f"{outputs[output]} writes there too: two sinks would take each other's place")
            elif output is not None:
                outputs[output] = name
        for name, source in sources.items():
            readers = sum(name in reads for reads in found.sources.values())
            if source.has_spool and readers > 1:
                self._wrong(
                    places.get("sources", ("source",)) + ((name,) if "sources" in places else ()),
                    f"a {source.spool_owner} can have one sink, and {readers} read it: a topic between them keeps its "
                    "records for all",
                )
            if source.kind == CDC and places:
                self._wrong(
                    ("sources", name) if "sources" in places else ("source",),
                    f"a source {CDC} is the only one, as `source` with one `sink`: write its changes to a topic, which "
                    "pipelines with several sources or sinks can read",
                )
            if "sources" in places and name not in (one for reads in found.sources.values() for one in reads):
                self._places = {"source": ("sources", name)}
                self._source_alone(source)
        self._places = {}

    def _wrong(self, place: Place, message: str) -> None:
        if place and place[0] in self._places:
            place = (*self._places[str(place[0])], *place[1:])
        self._problems.append(self._lines.problem(place, message))

    def _text(self, values: Mapping[str, object], name: str, *, required: bool = False) -> str | None:
        value = values.get(name)
        if value is None:
            if required:
                self._wrong((), f"a pipeline has a {name}, and this one has none")
            return None
        if not isinstance(value, str):
            self._wrong((name,), f"{name} is text, and not {shown(value)}")
            return None
        return value

    def _part(self, value: object, place: Place, role: str, kinds: Mapping[str, Kind]) -> Part | None:
        if value is None:
            self._wrong(place, f"a pipeline has a {role}, and this one has none")
            return None
        if not isinstance(value, Mapping):
            self._wrong(place, f"a {role} is a map with `type:` and its options, and not {shown(value)}")
            return None
        kind = value.get("type")
        if not isinstance(kind, str):
            self._wrong(place, f"a {role} has a `type:`, which is one of {listed(kinds)}")
            return None
        if kind not in kinds:
            self._wrong((*place, "type"), f"there is no {role} {kind}: {nearest(kind, kinds)}")
            return None
        others = ("type", "from") if role == "sink" else ("type",)  # `_from` has looked at it
        given = {name: option for name, option in value.items() if name not in others}
        return Part(kind, self._options(given, place, f"{role} {kind}", kinds[kind]))

    def _predicates(self, value: object) -> dict[str, tuple[str, dict[str, Any]]]:
        if not isinstance(value, Mapping):
            self._wrong(("predicates",), f"predicates is a map of names, and not {shown(value)}")
            return {}
        found = {}
        for name, item in value.items():
            place: Place = ("predicates", name)
            if not isinstance(item, Mapping) or not isinstance(item.get("type"), str):
                self._wrong(place, f"a predicate has a `type:`, which is one of {listed(PREDICATES)}")
                continue
            kind = smt_check.predicate_kind(item["type"])
            if kind is None:
                self._wrong(
                    (*place, "type"), f"there is no predicate {item['type']}: {nearest(item['type'], PREDICATES)}"
                )
                continue
            given = {option: told for option, told in item.items() if option != "type"}
            found[str(name)] = kind, self._options(given, place, f"predicate {kind}", PREDICATES[kind])
        return found

    def _connect_transform(
        self, kind: str, given: Mapping[str, object], place: Place, predicates: Mapping[str, tuple[str, dict[str, Any]]]
    ) -> Part:
        """A transform of Kafka Connect, which may be for some records only."""
        kind_of_all = SMTS[kind.partition("$")[0]].kind
        for gone, instead in GONE.items():
            if kind.startswith("ReplaceField") and gone in given:
                self._wrong(
                    (*place, gone), f"transform {kind}: {gone} went with Kafka 4.0, and {instead} is its name now"
                )
                given = {name: value for name, value in given.items() if name != gone}
        options: dict[str, Any] = {}
        if not kind.startswith("SetSchemaMetadata"):
            allowed = Kind(kind_of_all.doc, {**kind_of_all.options, **CONDITION})
            before = len(self._problems)
            options = self._options(given, place, f"transform {kind}", allowed)
            if len(self._problems) > before:
                return Part(kind, options)
        name, negate = options.pop("predicate", None), options.pop("negate", False)
        condition = None
        if name is not None and name not in predicates:
            there = nearest(name, predicates) if predicates else "there is no `predicates:` with it"
            self._wrong((*place, "predicate"), f"transform {kind}: there is no predicate {name}: {there}")
        elif name is not None:
            condition = Condition(*predicates[name], negate)
        elif "negate" in given:
            self._wrong((*place, "negate"), f"transform {kind}: negate turns a predicate round, and there is none")
        for option, message in smt_check.mistakes(kind, options, has_predicate=name is not None):
            where = (*place, option) if option in given else place
            self._wrong(where, f"transform {kind}: {f'{option}: ' if option else ''}{message}")
        return Part(kind, options, condition=condition)

    def _transforms(self, value: object, predicates: Mapping[str, tuple[str, dict[str, Any]]]) -> list[Part]:
        if not isinstance(value, list):
            self._wrong(("transforms",), f"transforms is a list, and not {shown(value)}")
            return []
        found = []
        for index, item in enumerate(value):
            place: Place = ("transforms", index)
            if callable(item):
                found.append(_function_part(item))
            elif isinstance(item, Mapping) and len(item) == 1:
                ((kind, options),) = item.items()
                kind = str(kind).removeprefix(DEBEZIUM)
                canonical = smt_check.canonical(kind)
                if kind not in TRANSFORMS and canonical is None:
                    self._wrong(place, smt_check.unknown(kind, list(TRANSFORMS)))
                    continue
                at = (*place, *item)
                options = {} if options is None else options
                if isinstance(options, str) and kind in SHORT:
                    options = {SHORT[str(kind)]: options}
                if not isinstance(options, Mapping):
                    self._wrong(at, f"{kind} takes a map of its options, and not {shown(options)}")
                    continue
                if canonical is not None:
                    found.append(self._connect_transform(canonical, options, at, predicates))
                    continue
                found.append(Part(kind, self._options(options, at, f"transform {kind}", TRANSFORMS[kind])))
            else:
                self._wrong(place, "a transform is one name with its options, such as `- mask: {fields: [card]}`")
        return found

    def _options(self, given: Mapping[str, object], place: Place, owner: str, kind: Kind) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in given.items():
            option = kind.options.get(name)
            if option is None and kind.passes and name.startswith(kind.passes):
                option = Option(Type.SCALAR, "")
            if option is None:
                self._wrong((*place, name), f"{owner} has no option {name}: {nearest(name, kind.options)}")
                continue
            checked = self._value((*place, name), value, option, f"{owner}: {name}")
            if checked is not None:
                found[name] = checked
        for name, option in kind.options.items():
            if name in given:
                continue
            if option.required:
                self._wrong(place, f"{owner} needs {name}: {option.doc}")
            elif option.default is not None:
                found[name] = option.default
        if kind.one_of and sum(name in given for name in kind.one_of) != 1:
            self._wrong(place, f"{owner} takes one of {listed(kind.one_of)}, and only one")
        return found

    def _value(self, place: Place, value: object, option: Option, owner: str) -> Any:
        if option.of is not None and isinstance(value, Mapping):
            return self._options(value, place, owner, Kind("", option.of))
        taken = _taken(value, option.type)
        if taken is None:
            self._wrong(place, f"{owner} takes {option.type.value}, and not {shown(value)}")
        elif option.choices and taken not in option.choices:
            self._wrong(place, f"{owner} is one of {listed(option.choices)}, and not {taken}")
            return None
        return taken

    def _source_alone(self, source: Part) -> None:
        """What the options of a source say together."""
        if source.kind == "http" and source.options["value"] == "json" and "schema" not in source.options:
            self._wrong(("source",), "source http needs a schema for values of json")
        if source.kind == "jdbc" and "spool" in source.options and not source.is_growing:
            self._wrong(
                ("source", "spool"), f"source jdbc: spool is for a table that grows, by {listed(GROWS_BY, 'or')}"
            )
        if source.kind == CDC:
            self._capture(source)
        if source.kind == "topic":
            self._value_schema(source, "source")
            self._readers_schema(source)

    def _together(self, source: Part, sink: Part, transforms: Sequence[Part]) -> None:
        """What each part allows and the whole does not."""
        self._source_alone(source)
        if sink.kind == "topic":
            self._value_schema(sink, "sink")
            if "registry" in sink.options and not {"topic", "subject"} & sink.options.keys():
                self._wrong(
                    ("sink", "registry"),
                    "sink topic without a topic has no one subject in the registry: say it by `subject`",
                )
        self._keys(source, sink, transforms)
        if sink.kind == "jdbc":
            self._jdbc_sink(source, sink, transforms)
        if "partition-by-time" in sink.options:
            self._time_directories(source, sink)
        self._origins(source, transforms)
        router = next((part.kind for part in transforms if part.kind in ROUTERS), None)
        routes = router is not None
        if routes and sink.kind != "topic":
            self._wrong(("transforms",), f"{router} chooses a topic, and the sink is {sink.kind}")
        if sink.kind == "topic" and "topic" not in sink.options and not source.has_topics and not routes:
            self._wrong(("sink",), "sink topic needs a topic, or a route: the records come from none")
        if routes and "topic" in sink.options:
            self._wrong(
                ("sink", "topic"), f"a sink with a topic leaves nothing to {router}: leave out the one or the other"
            )

    def _capture(self, source: Part) -> None:
        """What the options of a source `postgresql-cdc` say together."""
        options = source.options
        for name in ("table-include-list", "column-exclude-list"):
            for pattern in options.get(name, ()):
                try:
                    re.compile(pattern)
                except re.error as error:
                    self._wrong(("source", name), f"source {CDC}: {name}: {pattern} is no regular expression: {error}")
        slot = options.get("slot-name")
        if slot is not None and not SLOT_NAME.fullmatch(slot):
            self._wrong(
                ("source", "slot-name"),
                f"source {CDC}: a slot's name is up to 63 small letters, digits and '_', and not {slot}",
            )
        for operation in options["skipped-operations"]:
            if operation not in ("c", "u", "d", "t", "none"):
                self._wrong(
                    ("source", "skipped-operations"),
                    f"source {CDC}: an operation is one of c, u, d and t, or there are none, and not {operation}",
                )
        prefix = options.get("topic-prefix")
        if prefix is not None and not NAME.fullmatch(prefix):
            self._wrong(("source", "topic-prefix"), f"source {CDC}: {shown(prefix)} cannot begin a topic's name")
        if "database-sslkey" in options and "database-sslcert" not in options:
            self._wrong(("source", "database-sslkey"), f"source {CDC}: database-sslkey needs `database-sslcert`")

    def _keys(self, source: Part, sink: Part, transforms: Sequence[Part]) -> None:
        """How keys are read, and who makes them."""
        if source.kind == "topic" and ("key-schema" in source.options) != (source.options["key"] == "json"):
            self._wrong(("source",), "source topic: keys of json need a key-schema, and no others take one")
        maker = next(
            (part.kind for part in transforms if part.kind == "ValueToKey" or part.kind.endswith("$Key")), None
        )
        if maker is not None and sink.kind == "topic" and "key" in sink.options:
            self._wrong(("sink", "key"), f"a sink with a key leaves nothing to {maker}: leave out the one or the other")

    def _time_directories(self, source: Part, sink: Part) -> None:
        """What the options of a sink's directories say."""
        options, place = sink.options["partition-by-time"], ("sink", "partition-by-time")
        try:
            levels = [level.name for level in path_format.directories(options["pattern"])]
        except path_format.PatternError as error:
            self._wrong((*place, "pattern"), f"partition-by-time: {error}")
            levels = []
        for name in sink.options.get("partition-by", ()):
            if name in levels:
                self._wrong((*place, "pattern"), f"partition-by-time: {name} is in partition-by as well")
        if "field" not in options and not source.has_topics:
            self._wrong(place, f"partition-by-time: records of a source {source.kind} have no time: `field` has it")
        if not path_format.is_timezone(options["timezone"]):
            self._wrong(
                (*place, "timezone"),
                f"partition-by-time: a timezone is such as Europe/Prague, UTC or +02:00, and not {options['timezone']}",
            )
        given = options.get("duration")
        if given is not None and not (INTERVAL.fullmatch(given) and path_format.divides_a_day(interval_s(given))):
            self._wrong(
                (*place, "duration"),
                f"partition-by-time: a duration is whole seconds that a day is a multiple of, such as 15 minutes, "
                f"and not {given}",
            )

    def _jdbc_sink(self, source: Part, sink: Part, transforms: Sequence[Part]) -> None:
        """What the options of a sink `jdbc` say together."""
        options = sink.options
        mode, pk_mode, fields = options["insert-mode"], options["pk-mode"], options.get("pk-fields")

        def wrong(option: str, message: str) -> None:
            self._wrong(("sink", option), f"sink jdbc: {message}")

        if pk_mode == "none":
            if mode != "insert":
                wrong("insert-mode", f"{mode} goes by a key: `pk-mode: record_key` or `record_value` says where it is")
            if fields:
                wrong("pk-fields", "pk-fields needs a `pk-mode`, which says where the fields are")
        if pk_mode == "record_value" and not fields:
            wrong("pk-mode", "record_value needs pk-fields, which of the fields are the key")
        if pk_mode == "kafka":
            if source.kind != "topic":
                wrong("pk-mode", f"kafka is for records of a topic, and the source is {source.kind}")
            if fields and len(fields) != 3:
                wrong("pk-fields", "kafka has three columns of the key: for topic, partition and offset")
        makes_keys = any(part.kind == "ValueToKey" for part in transforms)
        if pk_mode == "record_key" and not source.has_topics and not makes_keys:
            wrong("pk-mode", f"records of a source {source.kind} have no key: `record_value` goes by a field of theirs")
        if options["delete-enabled"] and (pk_mode != "record_key" or mode == "insert"):
            wrong("delete-enabled", "rows are deleted by `pk-mode: record_key`, in `insert-mode` upsert or update")
        if options["auto-create"] and dialect_of(options["url"]).types is None:
            wrong("auto-create", f"tables are made in {' and '.join(DIALECTS)}, and elsewhere by yourself")

    def _origins(self, source: Part, transforms: Sequence[Part]) -> None:
        """What only records of a topic have."""
        if source.has_topics:
            return
        for index, part in enumerate(transforms):
            place: Place = ("transforms", index)
            has_topic = any(before.kind == "route" for before in transforms[:index])
            if part.kind.startswith("InsertField"):
                missing = [
                    name for name in ("partition.field", "offset.field", "timestamp.field") if name in part.options
                ]
                if "topic.field" in part.options and not has_topic:
                    missing.insert(0, "topic.field")
                if missing:
                    self._wrong(
                        place, f"{part.kind}: {missing[0]} is for records of a topic, and the source is {source.kind}"
                    )
            if part.kind == "TimestampRouter" or (part.kind == "RegexRouter" and not has_topic):
                what = "time" if part.kind == "TimestampRouter" else "topic"
                self._wrong(
                    place, f"{part.kind} goes by the {what} of a topic's record, and the source is {source.kind}: "
                    "`route` chooses a topic by a field"
                )  # fmt: skip

    def _value_schema(self, part: Part, role: str) -> None:
        """What the options of a topic's values say together."""
        options, owner = part.options, f"{role} topic"
        format_ = options.get("value")
        known = SOURCES["topic"].options if role == "source" else SINKS["topic"].options
        for name, formats in SCHEMA_FOR.items():
            if name in options and format_ not in formats:
                given = f"value is {format_}" if format_ else "value is not said"
                others = [
                    f"`{other}`"
                    for other in ("schema", "schema-file", "registry")
                    if name != "message" and other in known and format_ in SCHEMA_FOR[other]
                ]
                right = f", which takes {listed(others, 'or')}" if others else ""
                self._wrong(
                    (role, name), f"{owner}: {name} is for values of {listed(formats, 'or')}, and {given}{right}"
                )
        if format_ in BY_SCHEMA and not {"registry", "schema-file"} & options.keys():
            self._wrong((role, "value"), f"{owner}: values of {format_} need a `registry` or a `schema-file`")
        if "registry" not in options:
            for name in ("registry-user", "registry-password", "subject"):
                if name in options:
                    self._wrong((role, name), f"{owner}: {name} is for a `registry`, and there is none")
        elif "registry-password" in options and "registry-user" not in options:
            self._wrong((role, "registry-password"), f"{owner}: registry-password needs `registry-user`")
        for address in options.get("registry", ()):
            if not address.startswith(("http://", "https://")):
                self._wrong(
                    (role, "registry"),
                    f"{owner}: a registry's address begins with http:// or https://, and not as {shown(address)}",
                )

    def _readers_schema(self, source: Part) -> None:
        """Where the schema comes from that a topic's values are seen under."""
        options = source.options
        own = next((name for name in ("schema", "schema-file") if name in options), None)
        if own is not None:
            if "subject" in options:
                self._wrong(
                    ("source", "subject"),
                    f"source topic: its {own} is the schema, and leaves nothing to subject: leave out one of them",
                )
        elif options["value"] == "json" and "registry" not in options:
            self._wrong(("source",), "source topic needs a schema for values of json, or a registry that has it")
        elif "registry" in options and "subject" not in options and len(options.get("topic", ())) != 1:
            other = "schema" if options["value"] == "json" else "schema-file"
            self._wrong(
                ("source", "registry"),
                "source topic: several topics have no one subject in the registry: "
                f"say it by `subject`, or give `{other}`",
            )

    def _dead_letter(
        self,
        values: Mapping[str, object],
        errors: str,
        sources: Mapping[str, Part],
        sinks: Mapping[str, Part],
        *,
        has_query: bool,
    ) -> DeadLetter | None:
        given = values.get("dead-letter")
        if errors != "dead-letter":
            if given is not None:
                self._wrong(
                    ("dead-letter",), f"a dead-letter topic is for `errors: dead-letter`, and errors is {errors}"
                )
            return None
        if not isinstance(given, Mapping):
            self._wrong(("errors",), "`errors: dead-letter` needs `dead-letter: {topic: ...}`")
            return None
        options = self._options(given, ("dead-letter",), "dead-letter", Kind("", DEAD_LETTER))
        servers = options.get("bootstrap.servers")
        for part in (*sinks.values(), *sources.values()):
            if servers is None and part.kind == "topic":
                servers = part.options.get("bootstrap.servers")
        if servers is None:
            self._wrong(("dead-letter",), "dead-letter needs bootstrap.servers: neither source nor sink is a topic")
            return None
        if "topic" not in options:
            return None
        found = DeadLetter(options["topic"], servers)
        for sink in sinks.values():
            if sink.kind == "topic" and sink.options.get("topic") == found.topic:
                self._wrong(
                    ("dead-letter", "topic"), f"dead letters cannot go to {found.topic}, which is the sink's topic"
                )
        is_straight = values.keys().isdisjoint(ROLES.values()) and not has_query
        shares = is_straight and all(
            sink.kind == "topic" and sink.options.get("bootstrap.servers") == servers for sink in sinks.values()
        )
        for source in sources.values():
            if source.has_spool and not shares:
                # Bad records would have a query of their own.
                where = "" if is_straight else ", without `sql` and names of sources and sinks"
                self._wrong(
                    ("dead-letter",),
                    f"a {source.spool_owner} can have a dead-letter topic only beside a sink topic of the same "
                    f"brokers{where}",
                )
        return found


def _is_table(source: Part, *, has_names: bool) -> bool:
    """Whether one of several sources is read as it is: a table that does not grow, or what is `static`."""
    return has_names and (bool(source.options.get("static")) or (source.kind == "jdbc" and not source.is_growing))


def _output(sink: Part) -> tuple[object, ...] | None:
    """What only one sink can write to; None where several may."""
    if sink.kind in DIRECTORIES:
        return "directory", sink.options["path"].rstrip("/")
    if sink.kind == "jdbc":
        return "table", sink.options["url"], sink.options["table"]
    return ("table", sink.options["table"]) if sink.kind == "iceberg" else None


def _function_part(function: Function) -> Part:
    """A function among the transforms: one that takes a DataFrame says so by the type of what it takes."""
    parameters = list(inspect.signature(function).parameters.values())
    hint = str(parameters[0].annotation) if parameters else ""
    return Part("dataframe" if "DataFrame" in hint else "python", {"function": function.__qualname__}, function)


def _taken(value: object, type_: Type) -> Any:
    """The value in the form that the type has, or None where it has not."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    match type_:
        case Type.TEXT:
            return value if isinstance(value, str) else None
        case Type.NUMBER:
            return value if is_number and isinstance(value, int) and value > 0 else None
        case Type.LIMIT:
            return value if value == NO_LIMIT else _taken(value, Type.NUMBER)
        case Type.FLAG:
            return value if isinstance(value, bool) else None
        case Type.SCALAR:
            return value if isinstance(value, str | int | float | bool) else None
        case Type.NAMES:
            if isinstance(value, str):
                return (value,)
            if isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):
                return tuple(value)
            return None
        case Type.LIST:
            if isinstance(value, str):
                return tuple(item.strip() for item in value.split(",") if item.strip()) or None
            return _taken(value, Type.NAMES)
        case Type.PAIRS:
            return _pairs(value)
        case Type.SWITCH:
            return (
                {"true": True, "false": False}.get(value.strip().lower())
                if isinstance(value, str)
                else _taken(value, Type.FLAG)
            )
        case Type.MAP:
            if isinstance(value, Mapping) and all(
                isinstance(item, str | int | float | bool) for item in value.values()
            ):
                return {name: _as_text(item) for name, item in value.items()}
            return None


def _pairs(value: object) -> dict[str, str] | None:
    """`a:b,c:d` as a map; a lone text has the name of nothing. None for what is neither."""
    if isinstance(value, Mapping):
        return dict(value) if value and all(isinstance(item, str) for item in value.values()) else None
    items = _taken(value, Type.LIST)
    found: dict[str, str] = {}
    for item in items or ():
        name, colon, other = item.partition(":")
        if ":" in other or (colon and not (name.strip() and other.strip())):
            return None
        found |= {name.strip(): other.strip()} if colon else {smt_check.WHOLE: name.strip()}
    return found or None


def _as_text(value: object) -> str:
    """As YAML and Spark write it: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def shown(value: object) -> str:
    """A value in an error, short."""
    match value:
        case None:
            return "nothing"
        case bool():
            return _as_text(value)
        case Mapping():
            return "a map"
        case list() | tuple():
            return "a list"
        case str():
            return repr(value if len(value) <= 40 else value[:37] + "...")
        case _:
            return str(value)
