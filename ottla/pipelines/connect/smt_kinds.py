"""The transforms and predicates of Kafka Connect by their names, with the options that each takes there.

The words are Connect's, so that a connector's configuration can be moved as it is: class names with or without the
package, `$Key` and `$Value` where Connect has both (a name without either is that of the value), lists as text with
commas. A test holds the page and the real classes to this table. Nothing here knows Spark. Called by `smt_check`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.pipelines.connect.kinds import Kind, Option, Type

PACKAGE = "org.apache.kafka.connect.transforms."
PREDICATE_PACKAGE = f"{PACKAGE}predicates."
SIDES = ("Key", "Value")


@dataclass(frozen=True, slots=True)
class Smt:
    """A transform of Connect, which there is called single message transform."""

    kind: Kind
    has_sides: bool = True
    """Whether there is one for keys and one for values."""


_DEFAULT = {
    "replace.null.with.default": Option(
        Type.SWITCH, "Taken and without effect: fields have no defaults here, so null stays null.", default=True
    )
}
_FIELDS = Option(Type.LIST, "Which fields.", required=True)

SMTS: dict[str, Smt] = {
    "Cast": Smt(
        Kind(
            "Give fields, or all of a key or value, another type.",
            {"spec": Option(Type.PAIRS, "Field and type, or one type alone.", required=True), **_DEFAULT},
        )
    ),
    "DropHeaders": Smt(
        Kind("Leave headers out.", {"headers": Option(Type.LIST, "Which headers.", required=True)}), has_sides=False
    ),
    "ExtractField": Smt(
        Kind(
            "Put a field in the place of the record that it stands in.",
            {
                "field": Option(Type.TEXT, "Which field.", required=True),
                "field.syntax.version": Option(
                    Type.TEXT, "`V2` takes dots as steps into a field.", default="V1", choices=("V1", "V2")
                ),
                **_DEFAULT,
            },
        )
    ),
    "Filter": Smt(Kind("Leave out the records that the predicate holds for.", {}), has_sides=False),
    "Flatten": Smt(
        Kind(
            "Take fields of fields one level up, all the way down.",
            {"delimiter": Option(Type.TEXT, "What stands between the names.", default=".")},
        )
    ),
    "HeaderFrom": Smt(
        Kind(
            "Copy or move fields into headers.",
            {
                "fields": _FIELDS,
                "headers": Option(Type.LIST, "The headers, in the order of the fields.", required=True),
                "operation": Option(
                    Type.TEXT, "Whether the fields stay.", required=True, choices=("move", "copy")
                ),
                **_DEFAULT,
            },
        )
    ),
    "HoistField": Smt(
        Kind("Put all that there is into one field.", {"field": Option(Type.TEXT, "Which field.", required=True)})
    ),
    "InsertField": Smt(
        Kind(
            "Add fields that say where the record stood, or the same for all.",
            {
                "topic.field": Option(Type.TEXT, "The field for the topic."),
                "partition.field": Option(Type.TEXT, "The field for the partition."),
                "offset.field": Option(Type.TEXT, "The field for the offset."),
                "timestamp.field": Option(Type.TEXT, "The field for the record's time."),
                "static.field": Option(Type.TEXT, "The field that is the same for all."),
                "static.value": Option(Type.SCALAR, "What it says."),
                **_DEFAULT,
            },
        )
    ),
    "InsertHeader": Smt(
        Kind(
            "Add a header.",
            {
                "header": Option(Type.TEXT, "Which header.", required=True),
                "value.literal": Option(Type.SCALAR, "What it says.", required=True),
            },
        ),
        has_sides=False,
    ),
    "MaskField": Smt(
        Kind(
            "Hide what fields say.",
            {"fields": _FIELDS, "replacement": Option(Type.SCALAR, "What to put there."), **_DEFAULT},
        )
    ),
    "RegexRouter": Smt(
        Kind(
            "Give the record another topic, by the one it has.",
            {
                "regex": Option(Type.TEXT, "What the whole topic has to match, as Java writes it.", required=True),
                "replacement": Option(Type.TEXT, "The new topic, in which `$1` is a group.", required=True),
            },
        ),
        has_sides=False,
    ),
    "ReplaceField": Smt(
        Kind(
            "Leave fields out, or give them other names.",
            {
                "exclude": Option(Type.LIST, "Which to leave out."),
                "include": Option(Type.LIST, "Or which to keep."),
                "renames": Option(Type.PAIRS, "Old and new names."),
                **_DEFAULT,
            },
        )
    ),
    "SetSchemaMetadata": Smt(Kind("Is refused: records have no schema with a name here.", {})),
    "TimestampConverter": Smt(
        Kind(
            "Turn a time from one form into another.",
            {
                "field": Option(Type.TEXT, "Which field; without it, all of the key or value.", default=""),
                "target.type": Option(
                    Type.TEXT, "The new form.", required=True, choices=("string", "unix", "Date", "Time", "Timestamp")
                ),
                "format": Option(Type.TEXT, "The form of a time as text, as `SimpleDateFormat` has it.", default=""),
                "unix.precision": Option(
                    Type.TEXT, "What a whole number counts.", default="milliseconds",
                    choices=("seconds", "milliseconds", "microseconds", "nanoseconds"),
                ),
                **_DEFAULT,
            },
        )
    ),
    "TimestampRouter": Smt(
        Kind(
            "Give the record another topic, by its time.",
            {
                "topic.format": Option(
                    Type.TEXT, "In which `${topic}` and `${timestamp}` stand.", default="${topic}-${timestamp}"
                ),
                "timestamp.format": Option(Type.TEXT, "The time's form.", default="yyyyMMdd"),
            },
        ),
        has_sides=False,
    ),
    "ValueToKey": Smt(Kind("Make the key of fields of the value.", {"fields": _FIELDS, **_DEFAULT}), has_sides=False),
}  # fmt: skip

PREDICATES: dict[str, Kind] = {
    "HasHeaderKey": Kind(
        "The record has such a header.", {"name": Option(Type.TEXT, "Which header.", required=True)}
    ),
    "RecordIsTombstone": Kind("The record has no value.", {}),
    "TopicNameMatches": Kind(
        "The whole topic matches.", {"pattern": Option(Type.TEXT, "A regular expression of Java.", required=True)}
    ),
}  # fmt: skip

CONDITION = {
    "predicate": Option(Type.TEXT, "The name of a predicate: the transform is for records that it holds for."),
    "negate": Option(Type.SWITCH, "For those that it does not hold for.", default=False),
}
"""What every transform of Connect may be told besides."""

GONE = {"blacklist": "exclude", "whitelist": "include"}
"""Options of `ReplaceField` that Kafka 4.0 removed, and what took their places."""
