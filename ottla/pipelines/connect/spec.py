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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ottla.pipelines.connect import functions, smt_check
from ottla.pipelines.connect.errors import Problem, SpecError, listed, nearest
from ottla.pipelines.connect.jdbc_dialects import DIALECTS, dialect_of
from ottla.pipelines.connect.kinds import (
    BY_SCHEMA,
    CDC,
    DEAD_LETTER,
    ERRORS,
    SCHEMA_FOR,
    SINKS,
    SOURCES,
    TRANSFORMS,
    Kind,
    Option,
    Type,
)
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
TOP = ("name", "source", "transforms", "predicates", "sink", "errors", "dead-letter", "trigger", "checkpoint", "spark")
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

    kind: Literal["schema", "type", "expression", "pattern"]
    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class _Parsed:
    name: str
    source: Part
    sink: Part
    transforms: tuple[Part, ...]
    errors: str
    dead_letter: DeadLetter | None
    trigger: str | None
    checkpoint: str | None
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
        source: Mapping[str, object],
        sink: Mapping[str, object],
        transforms: Sequence[Mapping[str, object] | Function] = (),
        predicates: Mapping[str, object] | None = None,
        errors: str = "stop",
        dead_letter: Mapping[str, object] | None = None,
        trigger: str | None = None,
        checkpoint: str | None = None,
        spark: Mapping[str, object] | None = None,
    ) -> None:
        given = {
            "name": name, "source": source, "sink": sink, "transforms": list(transforms),
            "predicates": predicates, "errors": errors, "dead-letter": dead_letter, "trigger": trigger,
            "checkpoint": checkpoint, "spark": spark,
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
        self.source = parsed.source
        self.sink = parsed.sink
        self.transforms = parsed.transforms
        self.errors = parsed.errors
        self.dead_letter = parsed.dead_letter
        self.trigger = parsed.trigger
        self.checkpoint = parsed.checkpoint
        self.spark = parsed.spark
        self._lines = parsed.lines

    @classmethod
    def _of(cls, parsed: _Parsed, file: str) -> Pipeline:
        made = cls.__new__(cls)
        made._take(parsed)
        made.file = file
        return made

    @property
    def is_bounded(self) -> bool:
        """Whether the source ends by itself."""
        return self.source.kind == "jdbc" and not self.source.is_growing

    @property
    def has_shared_outcome(self) -> bool:
        """Whether good and bad records are written by one query, and so in one transaction."""
        return (
            self.dead_letter is not None
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
        return [*_sql(self.source, ("source",))] + [
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
        for role in ("source", "sink"):
            try:
                self.schema_file(role)
            except SpecError as error:
                problems += error.problems
        if problems:
            raise SpecError(problems)
        return self

    def wrong(self, place: Place, message: str) -> SpecError:
        """A mistake that only Spark could see, at its line in the file."""
        return SpecError([self._lines.problem(place, f"{spelled(place)}: {message}")])


def _sql(part: Part, place: Place) -> Iterator[Sql]:
    """What Spark parses of the options of a part."""
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
        source = self._part(values.get("source"), ("source",), "source", SOURCES)
        predicates = self._predicates(values.get("predicates", {}))
        transforms = self._transforms(values.get("transforms", []), predicates)
        sink = self._part(values.get("sink"), ("sink",), "sink", SINKS)
        errors = self._text(values, "errors") or "stop"
        if errors not in ERRORS:
            self._wrong(("errors",), f"errors is one of {listed(ERRORS)}, and not {errors}")
        trigger = self._text(values, "trigger")
        if trigger is not None and trigger != AVAILABLE_NOW and not INTERVAL.fullmatch(trigger):
            self._wrong(("trigger",), f"a trigger is {AVAILABLE_NOW} or a time such as 10 seconds, and not {trigger}")
        spark = self._value(("spark",), values.get("spark", {}), Option(Type.MAP, ""), "spark")
        checkpoint = self._text(values, "checkpoint")
        if not self._problems:
            self._together(source, sink, transforms)
        dead_letter = self._dead_letter(values, errors, source, sink)
        if self._problems:
            raise SpecError(self._problems)
        assert source is not None, "a part that is missing is a problem"
        assert sink is not None, "likewise"
        return _Parsed(
            name, source, sink, tuple(transforms), errors, dead_letter, trigger, checkpoint, spark or {}, self._lines
        )

    def _wrong(self, place: Place, message: str) -> None:
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
        given = {name: option for name, option in value.items() if name != "type"}
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
                if isinstance(options, str) and kind in ("python", "dataframe"):
                    options = {"function": options}
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
        taken = _taken(value, option.type)
        if taken is None:
            self._wrong(place, f"{owner} takes {option.type.value}, and not {shown(value)}")
        elif option.choices and taken not in option.choices:
            self._wrong(place, f"{owner} is one of {listed(option.choices)}, and not {taken}")
            return None
        return taken

    def _together(self, source: Part | None, sink: Part | None, transforms: Iterable[Part]) -> None:
        """What each part allows and the whole does not."""
        assert source is not None, "only a file without problems comes here"
        assert sink is not None, "likewise"
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
        if sink.kind == "topic":
            self._value_schema(sink, "sink")
            if "registry" in sink.options and not {"topic", "subject"} & sink.options.keys():
                self._wrong(
                    ("sink", "registry"),
                    "sink topic without a topic has no one subject in the registry: say it by `subject`",
                )
        transforms = list(transforms)
        self._keys(source, sink, transforms)
        if sink.kind == "jdbc":
            self._jdbc_sink(source, sink, transforms)
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
        self, values: Mapping[str, object], errors: str, source: Part | None, sink: Part | None
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
        for part in (sink, source):
            if servers is None and part is not None and part.kind == "topic":
                servers = part.options.get("bootstrap.servers")
        if servers is None:
            self._wrong(("dead-letter",), "dead-letter needs bootstrap.servers: neither source nor sink is a topic")
            return None
        if "topic" not in options:
            return None
        found = DeadLetter(options["topic"], servers)
        if sink is not None and sink.kind == "topic" and sink.options.get("topic") == found.topic:
            self._wrong(("dead-letter", "topic"), f"dead letters cannot go to {found.topic}, which is the sink's topic")
        shares = sink is not None and sink.kind == "topic" and sink.options.get("bootstrap.servers") == servers
        if source is not None and (source.kind == "http" or source.is_growing) and not shares:
            # The spool gives a record up when one query has read it, and bad records would have a query of their own.
            what = "source http" if source.kind == "http" else "growing source jdbc"
            self._wrong(
                ("dead-letter",),
                f"a {what} can have a dead-letter topic only beside a sink topic of the same brokers",
            )
        return found


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
