"""The words of a pipeline file: which sources, sinks and transforms there are, and what each may be told.

One table is the truth for names, types, defaults and documentation: `spec` checks a file against it, and a test holds
`docs/pipelines/connect.md` to it. Nothing here knows Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ottla.pipelines.source.offsets import BATCH_OFFSETS


class Type(Enum):
    """What an option takes; the value is how an error names it."""

    TEXT = "text"
    NUMBER = "a whole number"
    LIMIT = "a whole number, or none"
    FLAG = "true or false"
    NAMES = "a name or a list of names"
    MAP = "a map of names to text"
    SCALAR = "text, a number, or true or false"
    LIST = "a list, or text with commas between"
    PAIRS = "a map, or text such as `a:b,c:d`"
    SWITCH = "true or false, as text too"


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that a part of a pipeline may be told."""

    type: Type
    doc: str
    required: bool = False
    default: object = None
    choices: tuple[str, ...] = ()
    of: Mapping[str, Option] | None = None
    """Of a map: what may stand in it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A source, a sink or a transform by name."""

    doc: str
    options: Mapping[str, Option]
    one_of: tuple[str, ...] = ()
    """Of these options exactly one is given."""
    passes: str = ""
    """Options that begin with this go to the part as they are."""


BY_SCHEMA = ("avro", "protobuf")
"""Values that nobody can read without a schema."""
VALUE_FORMATS = ("json", *BY_SCHEMA, "string", "bytes")

_SERVERS = Option(Type.TEXT, "The brokers to connect to, `host:port,...`.", required=True)
_SCHEMA = Option(Type.TEXT, "The fields, as Spark writes them: `id BIGINT, name STRING`.")
_PATH = Option(Type.TEXT, "A directory or an address that Spark can reach.", required=True)
_VALUE_SCHEMA = {
    "registry": Option(Type.NAMES, "The registry that has the schemas, `http://...`; of several, the first to answer."),
    "registry-user": Option(Type.TEXT, "Who asks the registry."),
    "registry-password": Option(Type.TEXT, "Best written as `${env:NAME}`."),
    "subject": Option(Type.TEXT, "The schema's name in the registry [default: the topic's name with `-value`]."),
    "schema-file": Option(
        Type.TEXT, "The schema of values of `avro` or `protobuf`: an `.avsc`, a `.proto` or a descriptor set."
    ),
    "message": Option(Type.TEXT, "Which message of its schema a value of `protobuf` is [default: the first]."),
}
SCHEMA_FOR = {
    "schema": ("json",),
    "registry": ("json", *BY_SCHEMA),
    "registry-user": ("json", *BY_SCHEMA),
    "registry-password": ("json", *BY_SCHEMA),
    "subject": ("json", *BY_SCHEMA),
    "schema-file": BY_SCHEMA,
    "message": ("protobuf",),
}
"""Which formats of values an option is for."""
_JDBC = {
    "url": Option(Type.TEXT, "The database, `jdbc:...`.", required=True),
    "driver": Option(Type.TEXT, "The driver's class.", required=True),
    "user": Option(Type.TEXT, "Who connects."),
    "password": Option(Type.TEXT, "Best written as `${env:NAME}`."),
}
_HEADER = {
    "header": Option(Type.FLAG, "The first line of a file names the columns.", default=True),
    "delimiter": Option(Type.TEXT, "What stands between two columns.", default=","),
}
_STATIC = Option(Type.FLAG, "Of several sources: read as it is, for a `sql` to join, and no stream.")
_FILES_MAX = Option(Type.NUMBER, "How many new files a micro-batch takes at most.")
_PARTITION_BY = {
    "partition-by": Option(Type.NAMES, "Fields whose values become directories."),
    "partition-by-time": Option(
        Type.MAP,
        "Directories that are named after a time.",
        of={
            "pattern": Option(Type.TEXT, "The directories: `'dt'=yyyy-MM-dd/'hour'=HH`.", required=True),
            "field": Option(Type.TEXT, "The field that has the time [default: the time of the record]."),
            "timezone": Option(Type.TEXT, "The zone of days and hours, such as Europe/Prague.", default="UTC"),
            "duration": Option(Type.TEXT, "How long a directory lasts, such as 15 minutes: the time is rounded down."),
        },
    ),
}


def _files(doc: str, **more: Option) -> Kind:
    return Kind(doc, {"path": _PATH, **more, "max-files-per-batch": _FILES_MAX, "static": _STATIC})


SOURCES: dict[str, Kind] = {
    "topic": Kind(
        "Records of topics, of Ottla or of any Kafka.",
        {
            "topic": Option(Type.NAMES, "The topic, or several."),
            "pattern": Option(Type.TEXT, "Topics by a regular expression, new ones too."),
            "bootstrap.servers": _SERVERS,
            "value": Option(Type.TEXT, "How values are read.", default="json", choices=VALUE_FORMATS),
            "schema": Option(Type.TEXT, "The fields of values of `json`: `id BIGINT, name STRING`."),
            **_VALUE_SCHEMA,
            "key": Option(
                Type.TEXT, "How transforms of keys see them.", default="bytes", choices=("bytes", "string", "json")
            ),
            "key-schema": Option(Type.TEXT, "The fields of keys of `json`."),
            "starting-offsets": Option(
                Type.TEXT, "`earliest`, `latest`, or offsets as JSON; a checkpoint goes before it.", default="earliest"
            ),
            "max-records-per-batch": Option(
                Type.LIMIT,
                "How many records a micro-batch takes at most; `none`: all there are.",
                default=BATCH_OFFSETS,
            ),
            "group": Option(Type.TEXT, "Commit the offsets of each micro-batch to this group, so that its lag shows."),
        },
        one_of=("topic", "pattern"),
        passes="kafka.",
    ),
    "json": _files("Files of one JSON object a line.", schema=Option(Type.TEXT, _SCHEMA.doc, required=True)),
    "csv": _files("Files of comma-separated values.", schema=Option(Type.TEXT, _SCHEMA.doc, required=True), **_HEADER),
    "parquet": _files("Parquet files.", schema=Option(Type.TEXT, _SCHEMA.doc, required=True)),
    "text": _files("Files of text: each line is a record with the one field `value`."),
    "jdbc": Kind(
        "A table or a query of a database: once from beginning to end, or by a column that grows, as it grows.",
        {
            **_JDBC,
            "table": Option(Type.TEXT, "The table."),
            "query": Option(Type.TEXT, "Or a query."),
            "fetch-size": Option(Type.NUMBER, "Rows a round trip."),
            "incrementing": Option(Type.TEXT, "A column of whole numbers, in which new rows have higher ones."),
            "timestamp": Option(Type.TEXT, "A column of times, in which new and changed rows have later ones."),
            "spool": Option(Type.TEXT, "The directory that keeps rows of a growing table until they are through."),
        },
        one_of=("table", "query"),
    ),
    "postgresql-cdc": Kind(
        "What changes in tables of PostgreSQL, after what is there: by logical replication.",
        {  # the words are those of Debezium's connector
            "database-hostname": Option(Type.TEXT, "The server.", required=True),
            "database-port": Option(Type.NUMBER, "Its port.", default=5432),
            "database-dbname": Option(Type.TEXT, "The database.", required=True),
            "database-user": Option(Type.TEXT, "Who connects: a role with REPLICATION.", required=True),
            "database-password": Option(Type.TEXT, "Best written as `${env:NAME}`."),
            "database-sslmode": Option(
                Type.TEXT, "Whether TLS is wanted, and what of its certificate.", default="prefer",
                choices=("disable", "prefer", "require", "verify-ca", "verify-full"),
            ),
            "database-sslrootcert": Option(Type.TEXT, "The file of the authorities that are trusted."),
            "database-sslcert": Option(Type.TEXT, "The file of the client's certificate."),
            "database-sslkey": Option(Type.TEXT, "The file of its key."),
            "table-include-list": Option(
                Type.LIST, "The tables, as regular expressions for `schema.table`.", required=True
            ),
            "column-exclude-list": Option(
                Type.LIST, "Columns to leave out, as regular expressions for `schema.table.column`."
            ),
            "slot-name": Option(Type.TEXT, "The replication slot [default: ottla_ and the pipeline's name]."),
            "publication-name": Option(Type.TEXT, "The publication [default: the slot's name]."),
            "publication-autocreate-mode": Option(
                Type.TEXT, "Which tables are in a publication that is made.", default="filtered",
                choices=("filtered", "all_tables", "disabled"),
            ),
            "snapshot-mode": Option(
                Type.TEXT, "Whether the rows that are there come first.", default="initial",
                choices=("initial", "no_data", "never"),
            ),
            "topic-prefix": Option(
                Type.TEXT, "A record's topic is this, schema and table [default: the pipeline's name]."
            ),
            "tombstones-on-delete": Option(Type.FLAG, "A deletion is followed by a tombstone.", default=True),
            "skipped-operations": Option(
                Type.LIST, "Operations without records: `c`, `u`, `d`, `t`, or `none`.", default=("t",)
            ),
            "include-unknown-datatypes": Option(
                Type.FLAG, "Take columns of unknown types as text.", default=False
            ),
            "unavailable-value-placeholder": Option(
                Type.TEXT, "Stands for a TOASTed text that an update left as it was and PostgreSQL did not send."
            ),
            "spool": Option(Type.TEXT, "The directory that keeps changes until they are through."),
        },
    ),
    "delta": Kind("A Delta table.", {"path": _PATH, "static": _STATIC}),
    "iceberg": Kind(
        "An Iceberg table.",
        {"table": Option(Type.TEXT, "`catalog.database.table`.", required=True), "static": _STATIC},
    ),
    "http": Kind(
        "Records that are posted to an address; an answer means that they are on the disk.",
        {
            "listen": Option(Type.TEXT, "`host:port` to listen on.", required=True),
            "path": Option(Type.TEXT, "Where records are posted to.", default="/"),
            "value": Option(Type.TEXT, "How a record is read.", default="json", choices=("json", "string")),
            "schema": _SCHEMA,
            "token": Option(Type.TEXT, "What `Authorization: Bearer` has to say; best written as `${env:NAME}`."),
            "spool": Option(Type.TEXT, "The directory that keeps records until they are through."),
            "max-bytes": Option(Type.NUMBER, "The largest body.", default=1 << 20),
            "idempotency-keys": Option(
                Type.NUMBER, "How many values of the header Idempotency-Key are remembered.", default=100_000
            ),
        },
    ),
}  # fmt: skip
CDC = "postgresql-cdc"

SINKS: dict[str, Kind] = {
    "topic": Kind(
        "Records of a topic, of Ottla or of any Kafka.",
        {
            "topic": Option(Type.TEXT, "The topic; without it, the one that the record came from or `route` chose."),
            "bootstrap.servers": _SERVERS,
            "value": Option(
                Type.TEXT,
                "How values are written; without it JSON, and a lone field `value` as it is.",
                choices=VALUE_FORMATS,
            ),
            **_VALUE_SCHEMA,
            "key": Option(Type.TEXT, "The field that is the key; without it a record keeps the key it came with."),
            "delivery": Option(
                Type.TEXT,
                "Whether a micro-batch is one transaction.",
                default="exactly-once",
                choices=("exactly-once", "at-least-once"),
            ),
        },
        passes="kafka.",
    ),
    "json": Kind("Files of one JSON object a line.", {"path": _PATH, **_PARTITION_BY}),
    "csv": Kind("Files of comma-separated values.", {"path": _PATH, **_PARTITION_BY, **_HEADER}),
    "parquet": Kind("Parquet files.", {"path": _PATH, **_PARTITION_BY}),
    "text": Kind("Files of text; records have one text field.", {"path": _PATH}),
    "jdbc": Kind(
        "A table of a database; each micro-batch is one transaction there, and is written once.",
        {  # the words are those of the JDBC sinks for Kafka Connect
            **_JDBC,
            "table": Option(Type.TEXT, "The table.", required=True),
            "insert-mode": Option(
                Type.TEXT,
                "Whether a row is new, takes the place of another of its key, or does only that.",
                default="insert",
                choices=("insert", "upsert", "update"),
            ),
            "pk-mode": Option(
                Type.TEXT,
                "Where the key is: in the record's key, its value, or its topic, partition and offset.",
                default="none",
                choices=("none", "record_key", "record_value", "kafka"),
            ),
            "pk-fields": Option(Type.NAMES, "The columns of the key [default: all fields of the record's key]."),
            "delete-enabled": Option(Type.FLAG, "A record without a value removes the row of its key.", default=False),
            "auto-create": Option(Type.FLAG, "Make the table if there is none.", default=False),
            "staging": Option(Type.TEXT, "The table that a micro-batch is gathered in [default: <table>_ottla]."),
        },
    ),
    "delta": Kind("A Delta table.", {"path": _PATH, **_PARTITION_BY}),
    "iceberg": Kind("An Iceberg table.", {"table": Option(Type.TEXT, "`catalog.database.table`.", required=True)}),
}

_FIELDS = Option(Type.NAMES, "Which fields.", required=True)
_FIELD = Option(Type.TEXT, "Which field.", required=True)

TRANSFORMS: dict[str, Kind] = {
    "mask": Kind(
        "Hide what fields say.",
        {"fields": _FIELDS, "with": Option(Type.SCALAR, "What to put there [default: an empty text, 0, false].")},
    ),
    "cast": Kind(
        "Give fields another type; a value that has none in it is a bad record.",
        {"fields": Option(Type.MAP, "Field and Spark type: `{amount: 'DECIMAL(10,2)'}`.", required=True)},
    ),
    "rename": Kind("Give fields other names.", {"fields": Option(Type.MAP, "Old name and new name.", required=True)}),
    "drop": Kind("Leave fields out.", {"fields": _FIELDS}),
    "keep": Kind("Leave all other fields out.", {"fields": _FIELDS}),
    "insert": Kind(
        "Add a field.",
        {
            "field": _FIELD,
            "value": Option(Type.SCALAR, "What it says."),
            "from": Option(
                Type.TEXT,
                "Or where in the source the record stood.",
                choices=("topic", "partition", "offset", "timestamp", "key", "file"),
            ),
            "sql": Option(Type.TEXT, "Or an expression of Spark SQL over the fields."),
        },
        one_of=("value", "from", "sql"),
    ),
    "sql": Kind(
        "Query the records, in Spark SQL, as tables of the names of their sources.",
        {
            "query": Option(Type.TEXT, "A SELECT, in which a lone source is `records`.", required=True),
            "as": Option(Type.TEXT, "A name for the result, beside the records it is made of."),
        },
    ),
    "route": Kind(
        "Choose the topic by a field; a record without the field, or with a name no topic can have, is a bad one.",
        {
            "field": _FIELD,
            "topic": Option(Type.TEXT, "In `{value}` stands what the field says.", default="{value}"),
        },
    ),
    "filter": Kind(
        "Let those records through for which a condition holds.",
        {"where": Option(Type.TEXT, "A condition of Spark SQL over the fields.", required=True)},
    ),
    "flatten": Kind(
        "Take the fields of a field one level up, all the way down.",
        {"delimiter": Option(Type.TEXT, "What stands between the names.", default=".")},
    ),
    "timestamp": Kind(
        "Turn a point in time from one form into another; what is not of the form is a bad record.",
        {
            "field": _FIELD,
            "from": Option(
                Type.TEXT, "`unix-s`, `unix-ms`, `unix-us`, `timestamp`, `iso`, or a pattern of Spark.", required=True
            ),
            "to": Option(Type.TEXT, "Likewise.", default="timestamp"),
        },
    ),
    "dead-letter": Kind(
        "Take records for which a condition holds as bad ones.",
        {
            "where": Option(Type.TEXT, "A condition of Spark SQL over the fields.", required=True),
            "message": Option(Type.TEXT, "What is wrong with them.", default="the record was refused"),
        },
    ),
    "python": Kind(
        "Call a function with each record as a dict; it returns a dict, or None for nothing. What it raises makes the "
        "record a bad one.",
        {
            "function": Option(Type.TEXT, "`module:function`, or `file.py:function` beside the file.", required=True),
            "schema": Option(Type.TEXT, "The fields it returns [default: those it gets]."),
        },
    ),
    "dataframe": Kind(
        "Call a function with the DataFrame; it returns another, with the column `__ottla` as it was.",
        {"function": Option(Type.TEXT, "As of `python`.", required=True)},
    ),
    "ExtractNewRecordState": Kind(
        "Take the row out of Debezium's envelope; a deletion becomes a tombstone, or what is said.",
        {  # the words are Debezium's
            "delete.tombstone.handling.mode": Option(
                Type.TEXT,
                "What becomes of deletions and of their tombstones.",
                default="tombstone",
                choices=("tombstone", "drop", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"),
            ),
            "add.fields": Option(Type.LIST, "Fields of the envelope or its source to keep: `op,source.ts_ms`."),
            "add.fields.prefix": Option(Type.TEXT, "What their names begin with.", default="__"),
        },
    ),
}

DEAD_LETTER: dict[str, Option] = {
    "topic": Option(Type.TEXT, "The topic for bad records.", required=True),
    "bootstrap.servers": Option(Type.TEXT, "Its brokers [default: the sink's, else the source's]."),
}

RESTART: dict[str, Option] = {
    "on-failure": Option(Type.FLAG, "Under `ottla pipeline serve`: start it again when it has failed.", default=False),
    "max": Option(Type.NUMBER, "How often within an hour.", default=10),
    "backoff": Option(Type.TEXT, "How long to wait first; the wait doubles, up to a minute.", default="1 second"),
}

ERRORS = ("stop", "skip", "dead-letter")
