"""JSON objects to typed columns, a whole column at a time, with pyarrow's reader.

Promises: row i of the result is the object in row i, or the whole column is refused with the first row that is not one
JSON object of the schema. pyarrow reads a stream of objects and does not know where one value ends, so each is put in a
list of its own: `{"v":[VALUE]}`. A value cannot lead out of that into the next one (a string does not cross a line, and
what opens has to close), so as many rows as values, each with one element, is the proof that they match.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from ottla.client.columnar.values import BadValue

_BEGIN = b'{"v":['
_END = b"]}"
_BETWEEN = _END + b"\n" + _BEGIN


class JsonValues:
    """Decodes JSON objects into a struct with the fields of `schema`.

    A field that an object lacks is null; a field that the schema lacks is passed over, or refused with
    `refuses_unknown`. Types are what pyarrow's JSON reader converts to: numbers, booleans, text, ISO 8601 times, dates,
    decimals as text, lists and structs of them; `ValueError` for another one, at once. JSON's null is a null value.
    """

    def __init__(self, schema: pa.Schema, *, refuses_unknown: bool = False) -> None:
        self._type = pa.struct(list(schema))
        self._options = pyarrow.json.ParseOptions(
            explicit_schema=pa.schema([pa.field("v", pa.list_(_read_as(self._type)))]),
            unexpected_field_behavior="error" if refuses_unknown else "ignore",
        )
        try:
            self._read(pa.array([b"null", b"{}"], pa.binary()))
        except (pa.ArrowNotImplementedError, BadValue) as error:
            raise ValueError(f"JSON cannot be read as {self._type}: {error}") from None

    @property
    def type(self) -> pa.DataType:
        return self._type

    def decode(self, values: pa.Array) -> pa.Array:
        """See `ValueDecoder`."""
        if len(values) == 0:
            return pa.array([], self._type)
        values = pc.fill_null(values, b"null")
        try:
            return self._read(values)
        except BadValue as error:
            raise self._first_bad(values, error) from None

    def _read(self, values: pa.Array) -> pa.Array:
        """The structs, or `BadValue` without a row."""
        lists = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
        text = b"".join((_BEGIN, pc.binary_join(lists, _BETWEEN)[0].as_buffer(), _END))
        try:
            table = pyarrow.json.read_json(
                pa.BufferReader(text),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=self._options,
            )
        except pa.ArrowInvalid as error:
            raise BadValue(-1, str(error)) from None
        column = table.column("v").combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
        if len(column) != len(values) or not pc.all(pc.equal(pc.list_value_length(column), 1)).as_py():
            raise BadValue(-1, "it is not one JSON object")
        structs = column.flatten()
        try:
            structs.validate(full=True)  # pyarrow's reader does not look whether text is UTF-8
            return structs.cast(self._type)
        except pa.ArrowInvalid as error:
            raise BadValue(-1, str(error)) from None

    def _first_bad(self, values: pa.Array, error: BadValue) -> BadValue:
        """Find the row by halves: a part is bad when one of its rows is."""
        first = 0
        while len(values) > 1:
            half = len(values) // 2
            try:
                self._read(values[:half])
            except BadValue as nearer:
                error = nearer
                values = values[:half]
            else:
                first += half
                values = values[half:]
        try:
            self._read(values)
        except BadValue as nearest:
            error = nearest
        return BadValue(first, error.why)


def _read_as(kind: pa.DataType) -> pa.DataType:
    """The type to read for this one: pyarrow takes a number for a date, and everyone else writes it as ISO 8601."""
    if pa.types.is_date(kind):
        return pa.timestamp("s")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_read_as(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_read_as(kind.value_type)))
    return kind
