"""Values by a schema registry: AVRO, PROTOBUF and JSON_SR as serdes of a topology.

Values are read with the schema that they were written with and shown under the subject's latest; what is written
registers a schema that is made of the columns, but for Protobuf, whose schema has to be there. The registry is asked
when a query is compiled, and by the workers for the schemas of what they read. Called by `formats` and `engine`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.pipelines.schemas.topics import Format, reading, writing
from ottla.pipelines.sql.errors import SqlError
from ottla.pipelines.streams.serdes import Serde

if TYPE_CHECKING:
    from pyspark.sql import Column

FORMATS: dict[str, Format] = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON_SR": "json"}


def columns(topic: str, value_format: str, registry: str) -> list[tuple[str, str]]:
    """The columns of a topic's values, by the latest schema of its subject."""
    from pyspark.sql.types import StructType

    from ottla.pipelines.sql.analysis import sql_type

    kind, _ = reading(FORMATS[value_format], registry, topic)
    if not isinstance(kind, StructType):
        raise SqlError(f"the values of {topic} are {kind.simpleString()} and no record: they have no columns")
    return [(field.name, sql_type(field.dataType, field.name)) for field in kind.fields]


def registry_serde(topic: str, value_format: str, schema: str, registry: str) -> Serde:
    """The serde of a topic's values, as a struct of this schema."""

    def decode(raw: Column) -> Column:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        kind, read = reading(FORMATS[value_format], registry, topic)
        value = read(raw).getField("value")
        there = {name.lower(): name for name in kind.names} if isinstance(kind, StructType) else {}
        fields = []
        wanted = StructType.fromDDL(schema)
        assert isinstance(wanted, StructType), "columns are a struct"
        for field in wanted.fields:
            name = there.get(field.name.lower())
            if name is None:
                known = ", ".join(there.values())
                raise SqlError(f"the schema of {topic}-value has no field {field.name}: it has {known}")
            fields.append(value.getField(name).cast(field.dataType).alias(field.name))
        return F.when(value.isNotNull(), F.struct(*fields))

    def encode(value: Column) -> Column:
        from pyspark.sql.types import StructType

        return writing(StructType.fromDDL(schema), FORMATS[value_format], registry, topic)(value)

    return Serde(value_format.lower(), schema, decode, encode)
