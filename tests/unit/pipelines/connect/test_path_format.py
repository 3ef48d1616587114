"""Patterns of directories, as Confluent's TimeBasedPartitioner takes them."""

from __future__ import annotations

import pytest

from ottla.pipelines.connect import Pipeline, SpecError
from ottla.pipelines.connect.path_format import Directory, Number, PatternError, directories


def test_a_pattern_is_directories_of_text_and_numbers() -> None:
    assert directories("'dt'=yyyy-MM-dd/'hour'=HH") == [
        Directory("dt", (Number("y", 4), "-", Number("M", 2), "-", Number("d", 2))),
        Directory("hour", (Number("H", 2),)),
    ]
    # The defaults of Confluent's DailyPartitioner and HourlyPartitioner, and the other way to quote.
    for pattern in ("'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", "'year='YYYY/'month='MM/'day='dd/'hour='HH/"):
        found = directories(pattern)
        assert [one.name for one in found] == ["year", "month", "day", "hour"], pattern
        assert found[0].value == (Number("Y", 4),)
    assert directories("'at'=D'th''s'_m")[0].value == (Number("D", 1), "th's_", Number("m", 1))


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("yyyy/MM", "each directory is a name in quotes, =, and letters of a time, such as 'dt'=yyyy-MM-dd"),
        ("", "each directory is a name in quotes, =, and letters of a time, such as 'dt'=yyyy-MM-dd"),
        ("'dt'=yyyy//'hour'=HH",
         "each directory is a name in quotes, =, and letters of a time, such as 'dt'=yyyy-MM-dd"),
        ("'dt'=MMM", "MMM is the name of a month, which is of a language: MM is its number"),
        ("'dt'=MM/'e'=E", "E is no part of a time: there is y Y M d D H m s, and text in quotes"),
        ("dt=yyyy", "t is no part of a time: there is y Y M d D H m s, and text in quotes"),
        ("'dt=yyyy", "a quote is not closed"),
        ("'dt'='today'", "the directory dt has no letter of a time after its ="),
        ("'1 x'=yyyy", "a directory has a name such as 'dt' before its =, and not '1 x'"),
        ("'a'=yyyy/'A'=MM", "two directories are named a"),
    ],
)  # fmt: skip
def test_what_names_no_directories_is_told(pattern: str, said: str) -> None:
    with pytest.raises(PatternError) as caught:
        directories(pattern)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"field": "at"}, "partition-by-time needs pattern: The directories: `'dt'=yyyy-MM-dd/'hour'=HH`."),
        ({"pattern": "'dt'=yyyy"}, "partition-by-time: records of a source json have no time: `field` has it"),
        ({"pattern": "yyyy", "field": "at"}, "partition-by-time: each directory is a name in quotes"),
        ({"pattern": "'city'=yyyy", "field": "at"}, "partition-by-time: city is in partition-by as well"),
        ({"pattern": "'dt'=yyyy", "field": "at", "timezone": "Europe/Prag"}, "a timezone is such as Europe/Prague"),
        ({"pattern": "'dt'=HHmm", "field": "at", "duration": "7 minutes"}, "a duration is whole seconds that a day is"),
        ({"pattern": "'dt'=HHmm", "field": "at", "duration": "500 milliseconds"}, "a duration is whole seconds"),
        ({"pattern": "'dt'=HHmm", "field": "at", "zone": "UTC"}, "partition-by-time has no option zone"),
        ("hourly", "partition-by-time takes a map of names to text, and not 'hourly'"),
    ],
)
def test_directories_by_time_that_are_wrong_are_told(options: object, said: str) -> None:
    source = {"type": "json", "path": "in", "schema": "at STRING, city STRING"}
    sink = {"type": "parquet", "path": "out", "partition-by": "city", "partition-by-time": options}
    with pytest.raises(SpecError) as caught:
        Pipeline("lake", source=source, sink=sink)
    assert said in str(caught.value)


def test_directories_by_time_have_their_defaults() -> None:
    source = {"type": "topic", "topic": "t", "bootstrap.servers": "localhost:1", "value": "string"}
    for zone in ("Europe/Prague", "+02:00", "UTC"):
        by_time = {"pattern": "'dt'=yyyy", "timezone": zone}
        sink = {"type": "json", "path": "out", "partition-by-time": by_time}
        assert Pipeline("lake", source=source, sink=sink).sink.options["partition-by-time"] == by_time
    sink = {"type": "json", "path": "out", "partition-by-time": {"pattern": "'dt'=yyyy"}}
    found = Pipeline("lake", source=source, sink=sink).sink.options["partition-by-time"]
    assert found == {"pattern": "'dt'=yyyy", "timezone": "UTC"}
