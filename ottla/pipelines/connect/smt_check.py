"""Whether the transforms of Kafka Connect in a file are right, as far as can be said without Spark.

`canonical` knows a transform by each of its names, `unfolded` takes a connector's flat properties (`transforms: a,b`
and `transforms.a.type: ...`) to the list that a file has, and `mistakes` tells what is refused of the options, with
what to use instead. Nothing here imports Spark. Called by `spec`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ottla.pipelines.connect.errors import Problem, listed, nearest
from ottla.pipelines.connect.java_patterns import BadPattern, parsed
from ottla.pipelines.connect.smt_kinds import PACKAGE, PREDICATE_PACKAGE, PREDICATES, SIDES, SMTS
from ottla.pipelines.connect.yaml_file import Lines
from ottla.pipelines.connect.yaml_file import Path as Place

CAST_TYPES = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
WHOLE = ""
"""The name of a cast's field that stands for all of the key or value, which no field has."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_SHORT_FRACTION = re.compile(r"([+-]?)0*([0-9]{1,4})\.([0-9]{1,2})")
_DATE = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
_PLAIN = re.compile(r"[A-Za-z_/@#%&*=<>!?.;|^~$][^\\\"\[\]{},:]*")
LONG = range(-(2**63), 2**63)


def canonical(name: str) -> str | None:
    """`Cast$Value` for each of its names; None for what is no transform of Connect."""
    short, dollar, side = name.removeprefix(PACKAGE).partition("$")
    smt = SMTS.get(short)
    if smt is None or (dollar and (not smt.has_sides or side not in SIDES)):
        return None
    return f"{short}${side or 'Value'}" if smt.has_sides else short


def predicate_kind(name: str) -> str | None:
    """`RecordIsTombstone` for each of its names; None for what is no predicate of Connect."""
    short = name.removeprefix(PREDICATE_PACKAGE)
    return short if short in PREDICATES else None


def names() -> list[str]:
    """Every name that a transform of Connect has here, without its package."""
    return [
        one for name, smt in SMTS.items() for one in ([f"{name}${side}" for side in SIDES] if smt.has_sides else [name])
    ]


def unfolded(values: Mapping[str, Any], lines: Lines) -> tuple[Mapping[str, Any], Lines, list[Problem]]:
    """A file with the flat properties of a connector as one with lists and maps, on the lines of the properties."""
    flat = {name for name in values if name.startswith(("transforms.", "predicates."))}
    if not flat and not any(isinstance(values.get(role), str) for role in ("transforms", "predicates")):
        return values, lines, []
    of = dict(lines.of)
    problems: list[Problem] = []
    found: dict[str, Any] = {name: value for name, value in values.items() if name not in flat}
    taken: set[str] = set()

    def gathered(role: str) -> list[tuple[str, dict[str, Any]]]:
        aliases = [alias.strip() for alias in str(values[role]).split(",") if alias.strip()]
        parts = []
        for alias in aliases:
            prefix = f"{role}.{alias}."
            # The longest alias that fits has the property: `a` and `a.b` may both be there.
            mine = {
                name: name.removeprefix(prefix)
                for name in flat
                if name.startswith(prefix)
                and not any(name.startswith(f"{role}.{other}.") for other in aliases if len(other) > len(alias))
            }
            taken.update(mine)
            parts.append((alias, {short: (name, values[name]) for name, short in sorted(mine.items())}))
        return parts

    if isinstance(values.get("transforms"), str):
        items: list[dict[str, Any]] = []
        for alias, options in gathered("transforms"):
            name, type_ = options.pop("type", ("transforms", None))
            if not isinstance(type_, str):
                problems.append(
                    lines.problem(("transforms",), f"transforms has {alias}, and there is no transforms.{alias}.type")
                )
                continue
            place: Place = ("transforms", len(items))
            of[place] = of[(*place, type_)] = of.get((name,), 0)
            for short, (whole, _) in options.items():
                of[(*place, type_, short)] = of.get((whole,), 0)
            items.append({type_: {short: value for short, (_, value) in options.items()}})
        found["transforms"] = items
    if isinstance(values.get("predicates"), str):
        predicates = {}
        for alias, options in gathered("predicates"):
            for short, (whole, _) in options.items():
                of[("predicates", alias, short)] = of.get((whole,), 0)
            predicates[alias] = {short: value for short, (_, value) in options.items()}
        found["predicates"] = predicates
    for name in sorted(flat - taken):
        role = name.partition(".")[0]
        problems.append(
            lines.problem((name,), f"{name} belongs to none of `{role}:`, which lists the names of this pipeline's")
        )
    return found, Lines(lines.file, of), problems


def mistakes(kind: str, options: Mapping[str, Any], *, has_predicate: bool) -> Iterator[tuple[str, str]]:
    """What is wrong with the options of a transform: each option, and what would be right."""
    match kind.partition("$")[0]:
        case "Cast":
            yield from _cast(options.get("spec", {}))
        case "ExtractField":
            try:
                steps(options.get("field", ""), options["field.syntax.version"])
            except ValueError as error:
                yield "field", str(error)
        case "Filter":
            if not has_predicate:
                yield "", "Filter without a predicate leaves no record: say which by `predicate`"
        case "HeaderFrom":
            if len(options.get("fields", ())) != len(options.get("headers", ())):
                yield "headers", "there have to be as many headers as fields"
        case "InsertField":
            yield from _insert_field(options)
        case "InsertHeader":
            try:
                header_text(str(options.get("value.literal", "")))
            except ValueError as error:
                yield "value.literal", str(error)
        case "RegexRouter":
            yield from _groups(options.get("regex", ""), options.get("replacement", ""))
        case "SetSchemaMetadata":
            yield (
                "",
                (
                    "SetSchemaMetadata has no meaning here, where a record's schema has no name: "
                    "`subject` and `schema-file` of a sink topic say which schema its values are written by"
                ),
            )
        case "TimestampConverter":
            yield from _timestamp(options)
        case "TimestampRouter":
            try:
                parsed(options["timestamp.format"])
            except BadPattern as error:
                yield "timestamp.format", str(error)
        case _:
            pass


def _cast(spec: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, type_ in spec.items():
        if type_.lower() not in CAST_TYPES:
            what = f"{name} cannot be {type_}" if name != WHOLE else f"a value cannot be {type_}"
            yield "spec", f"{what}: there is {listed(CAST_TYPES)}; the transform `cast` takes Spark's types"
    if WHOLE in spec and len(spec) > 1:
        yield "spec", "a type alone is for all of the key or value, and leaves nothing to other casts"


def _insert_field(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    places = [name for name in options if name.endswith(".field")]
    if not places:
        yield (
            "",
            "InsertField needs one of topic.field, partition.field, offset.field, timestamp.field and static.field",
        )
    if ("static.field" in options) != ("static.value" in options):
        yield "", "InsertField takes static.field and static.value together"


def _timestamp(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    target, format_ = options.get("target.type"), options["format"]
    if target == "Time":
        yield (
            "target.type",
            ("a time of day has no type here: `target.type: string` with `format: HH:mm:ss.SSS` writes it as text"),
        )
    if target == "string" and not format_.strip():
        yield "format", "a time as text needs a format"
    try:
        parsed(format_)
    except BadPattern as error:
        yield "format", str(error)


def _groups(regex: str, replacement: str) -> Iterator[tuple[str, str]]:
    """Groups that the replacement asks for and the expression does not have; Java would raise for each record."""
    bare = re.sub(r"\\Q.*?(\\E|\Z)|\\.|\[(?:\\.|[^\]\\])*\]", "", regex, flags=re.DOTALL)
    named = set(re.findall(r"\(\?<([A-Za-z][A-Za-z0-9]*)>", bare))
    count = len(re.findall(r"\((?!\?)", bare)) + len(named)
    position = 0
    while position < len(replacement):
        if replacement[position] == "\\":
            position += 1
            if position == len(replacement):
                yield "replacement", "a backslash at the end takes nothing as it is: write two"
        elif replacement[position] == "$":
            found = re.compile(r"\$(?:(\d)|\{([A-Za-z][A-Za-z0-9]*)\})").match(replacement, position)
            if found is None:
                yield "replacement", "a dollar begins a group such as $1: write \\$ for the letter"
            elif found[1] and int(found[1]) > count:
                yield "replacement", f"there is no group {found[1]} in {regex}"
            elif found[2] and found[2] not in named:
                yield "replacement", f"there is no group {found[2]} in {regex}"
        position += 1


def steps(field: str, version: str) -> Sequence[str]:
    """The steps into a field; `ValueError` with what is wrong with them."""
    if version == "V1":
        return (field,)
    found: list[str] = []
    position = 0
    while position <= len(field):
        if field[position : position + 1] != "`":
            end = field.find(".", position)
            end = len(field) if end < 0 else end
            found.append(field[position:end])
            position = end + 1
            continue
        closing = re.compile(r"(?<!\\)`(?=\.|\Z)").search(field, position + 1)
        if closing is None:
            raise ValueError(f"a backtick of {field} begins a name that no backtick ends")
        found.append(re.sub(r"\\`(?=\.)", "`", field[position + 1 : closing.start()]))
        position = closing.end() + 1
    return found


def header_text(literal: str) -> str | None:
    """What Connect writes for a literal, which it reads as a value first; `ValueError` where that is another value.

    A whole number loses its sign and zeros in front, and `null` is a header without a value.
    """
    text = literal.strip()
    if literal == "null":
        return None
    if _INTEGER.fullmatch(text) and int(text) in LONG:
        return str(int(text))
    fraction = _SHORT_FRACTION.fullmatch(text)
    if fraction:
        sign, whole, part = fraction.groups()
        part = part.rstrip("0")
        number = f"{int(whole)}.{part}" if part else str(int(whole))
        return f"-{number}" if sign == "-" and number != "0" else number
    if literal == "" or _PLAIN.fullmatch(literal) or _DATE.fullmatch(literal):
        return literal
    raise ValueError(
        f"Connect would read {literal!r} as a value and write it in a form of its own: plain text, a whole number, "
        "a number with up to two digits after the point or a date stays as it is"
    )


def unknown(name: str, others: Sequence[str]) -> str:
    """What is said of a transform that is not there."""
    if name.startswith(PACKAGE):
        return f"Kafka has no transform {name}: {nearest(name.removeprefix(PACKAGE), names())}"
    if "." in name:
        return f"{name} is a class of others: a transform `python` or `dataframe` takes its place"
    return f"there is no transform {name}: {nearest(name, [*others, *names()])}"
