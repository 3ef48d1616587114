"""`ottla dump-log` prints what Kafka's tool prints, and says plainly what is wrong where that one breaks off."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.dump import batch_walk
from ottla.cli.dump.file_name import FileName
from ottla.cli.dump.java_text import Json, double_text, json_text, utf8_text
from ottla.cli.dump.metadata_decoder import record_type_name
from ottla.cli.dump_log import command
from ottla.records import Record, build_batch
from tests.support.dump_log import API, CASES, Case, Output, finished, unpack
from tests.support.golden import GOLDEN
from tests.support.mutation import mutations, truncations

SEGMENT = "00000000000000000000"
NOW_MS = 1_700_000_000_000


def dump(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def batch(base_offset: int, *values: bytes | None, key: bytes | None = b"k") -> bytes:
    return build_batch([Record(base_offset + place, NOW_MS, key, value) for place, value in enumerate(values)])


def shown(result: Result) -> list[str]:
    """Keys and values that were printed with `--skip-record-metadata`."""
    return [line.removeprefix("| ") for line in result.stdout.splitlines() if line.startswith("| ")]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def segment(here: Path) -> Path:
    """A segment of three batches in the directory to work in."""
    path = here / f"{SEGMENT}.log"
    path.write_bytes(batch(0, b"a", b"b") + batch(2, b"c", b"d") + batch(4, b"e", b"f"))
    return path


# What Kafka's tool prints


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Output]]:
    directory = tmp_path_factory.mktemp("dump-log")
    return directory, unpack(directory)


def run_case(directory: Path, case: Case) -> Output:
    result = dump(*case.arguments(directory))
    return finished(
        directory, subprocess.CompletedProcess([], result.exit_code, result.stdout_bytes, result.stderr_bytes)
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_output_is_that_of_kafkas_tool(
    case: Case, kept: tuple[Path, dict[str, Output]], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, outputs = kept
    monkeypatch.chdir(directory)
    printed = run_case(directory, case)
    assert printed.lines.splitlines() == outputs[case.name].lines.splitlines()
    assert printed.errors == outputs[case.name].errors


@pytest.mark.parametrize("chunk_size", [1, 64, 1000])
@pytest.mark.parametrize("name", ["golden-records", "damaged-batches", "indexes"])
def test_where_a_piece_of_the_file_ends_makes_no_difference(
    name: str, chunk_size: int, kept: tuple[Path, dict[str, Output]], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, outputs = kept
    monkeypatch.chdir(directory)
    monkeypatch.setattr(batch_walk, "CHUNK_SIZE", chunk_size)
    case = next(case for case in CASES if case.name == name)
    assert run_case(directory, case) == outputs[name]


def test_every_option_of_kafkas_tool_is_there() -> None:
    tools = json.loads((GOLDEN / "kafka-facts" / "tools.json").read_text())
    known = {option for parameter in command.params for option in parameter.opts}
    assert known - {"--output", "--help"} == set(tools["kafka-dump-log"]["options"])


def test_nothing_is_written_or_made(kept: tuple[Path, dict[str, Output]], monkeypatch: pytest.MonkeyPatch) -> None:
    directory = kept[0] / "made"
    monkeypatch.chdir(directory)
    before = {path: path.stat().st_mtime_ns for path in directory.rglob("*")}
    paths = [str(path.relative_to(directory)) for path in directory.rglob("*.*")]
    dump("--files", ",".join([*paths, "index/00000000000000000099.index", "00000000000000000099.timeindex"]))
    assert {path: path.stat().st_mtime_ns for path in directory.rglob("*")} == before


# JSON


def test_json_has_a_row_for_each_line_of_the_text(
    kept: tuple[Path, dict[str, Output]], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, outputs = kept
    monkeypatch.chdir(directory)
    case = next(case for case in CASES if case.name == "golden-metadata")
    rows = [json.loads(line) for line in dump(*case.arguments(directory), "--output", "json").stdout.splitlines()]
    lines = [line for line in outputs[case.name].lines.splitlines() if not line.startswith("Dumping ")]
    assert len(rows) == len(lines) > 800
    for row, line in zip(rows, lines, strict=True):
        if row["type"] == "batch":
            assert f"baseOffset: {row['baseOffset']} lastOffset: {row['lastOffset']} count: {row['count']} " in line
            assert row["isvalid"] is True
            assert row["deleteHorizonMs"] is None
        elif row["type"] == "record" and "payload" in row:
            assert line.endswith(f"payload: {json_text(row['payload'])}")


def test_json_names_the_file_and_the_kind_and_has_findings_among_the_rows(segment: Path) -> None:
    segment.write_bytes(batch(3, b"x") + b"cut")
    result = dump("--files", segment.name, "--output", "json", "--print-data-log", "--skip-record-metadata")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert {row.pop("file") for row in rows[:-1]} == {segment.name}
    assert rows[0] == {"type": "log", "startingOffset": 0}
    assert rows[1]["type"] == "batch"
    assert rows[2:4] == [{"type": "record", "key": "k", "payload": "x"}, {"type": "invalidBytes", "size": 3}]
    assert rows[4:] == [{"file": str(segment), "type": "gap", "offset": -1, "nextOffset": 3}]
    assert result.stderr == ""


# Damage, at which Kafka's tool ends with a stack trace


def test_records_before_the_damage_are_shown_and_then_the_next_batch(segment: Path) -> None:
    damaged = bytearray(segment.read_bytes())
    second = len(damaged) // 3
    value = damaged.index(b"d", second)
    damaged[value - 1] = 0x50  # the length of the last value of the second batch
    segment.write_bytes(damaged)
    result = dump("--files", segment.name, "--print-data-log", "--skip-record-metadata")
    assert shown(result) == [f"key: k payload: {value}" for value in "abcef"]
    assert result.stderr.startswith(f"{segment.name}: the records of the batch at position {second} cannot be read: ")
    assert result.exit_code == 1


def test_a_batch_that_cannot_be_decompressed_is_told_and_passed_over(segment: Path) -> None:
    damaged = bytearray(segment.read_bytes())
    damaged[22] |= 4  # zstd, says the header
    segment.write_bytes(damaged)
    result = dump("--files", segment.name, "--print-data-log", "--skip-record-metadata")
    assert shown(result) == [f"key: k payload: {value}" for value in "cdef"]
    assert "compresscodec: zstd" in result.stdout
    assert len(result.stderr.splitlines()) == 3  # the damage, and the gap it leaves with its heading
    assert result.exit_code == 1


def test_a_codec_that_does_not_exist_is_shown_as_unknown(segment: Path) -> None:
    damaged = bytearray(segment.read_bytes())
    damaged[22] |= 7
    segment.write_bytes(damaged)
    assert "compresscodec: unknown" in dump("--files", segment.name).stdout


def test_where_no_batch_can_begin_the_rest_is_left_out(segment: Path) -> None:
    """As in a segment that was made at its full size, and lost its end in a crash."""
    whole = segment.read_bytes()
    segment.write_bytes(whole + bytes(500))
    result = dump("--files", segment.name)
    assert len(result.stdout.splitlines()) == 2 + 3
    assert result.stderr == (
        f"{segment.name}: there is no batch at position {len(whole)}: its size would be 0, and 14 is the least. "
        "The last 500 bytes are not shown\n"
    )
    assert result.exit_code == 1


def test_a_batch_smaller_than_its_header_is_shown_but_has_no_records(segment: Path) -> None:
    whole = bytearray(segment.read_bytes())
    struct.pack_into(">i", whole, 8, 40)
    segment.write_bytes(whole)
    result = dump("--files", segment.name, "--deep-iteration")
    assert "position: 0 CreateTime: 1700000000000 size: 52 magic: 2" in result.stdout.splitlines()[2]
    assert result.stdout.splitlines()[2].endswith("isvalid: false")
    assert "the batch at position 0 cannot be read" in result.stderr
    assert result.exit_code == 1


def test_offsets_beyond_the_largest_are_shown(segment: Path) -> None:
    damaged = bytearray(segment.read_bytes())
    struct.pack_into(">q", damaged, 0, 2**63 - 1)
    segment.write_bytes(damaged)
    result = dump("--files", segment.name, "--deep-iteration")
    assert f"baseOffset: {2**63 - 1} lastOffset: {2**63} " in result.stdout
    assert f"  -1 is followed by {2**63 - 1}\n" in result.stderr
    assert result.exit_code == 0


def test_a_path_that_is_not_utf8_is_printed_as_it_was_given(segment: Path) -> None:
    name = os.fsdecode(b"\xff") + "/" + segment.name
    os.mkdir(os.fsencode(segment.parent) + b"/\xff")
    segment.rename(segment.parent / name)
    result = dump("--files", name)
    assert result.stdout_bytes.startswith(b"Dumping \xff/" + segment.name.encode())
    assert result.exit_code == 0


def test_an_index_entry_that_points_at_no_batch_is_shown_and_told(segment: Path) -> None:
    size = len(segment.read_bytes())
    entries = [(1, 0), (3, 7), (5, size), (6, size + 1), (7, -1), (5, size // 3 * 2)]
    index = segment.with_suffix(".index")
    index.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    result = dump("--files", index.name)
    assert result.stdout.splitlines()[1:] == [f"offset: {offset} position: {position}" for offset, position in entries]
    errors = result.stderr.splitlines()
    assert len(errors) == 4
    assert all(error.startswith(f"{index.name}: entry {slot} ") for slot, error in enumerate(errors, 1))
    assert result.exit_code == 1


def test_a_batch_above_the_largest_message_is_not_found_through_an_index(segment: Path) -> None:
    index = segment.with_suffix(".index")
    index.write_bytes(struct.pack(">ii", 1, 0))
    size = len(segment.read_bytes()) // 3
    assert dump("--files", index.name, "--max-message-size", str(size)).exit_code == 0
    result = dump("--files", index.name, "--max-message-size", str(size - 1))
    assert f"a message at most {size - 1}" in result.stderr
    assert result.exit_code == 1


def test_a_time_index_whose_offset_index_is_damaged_says_so(segment: Path) -> None:
    segment.with_suffix(".index").write_bytes(struct.pack(">ii", 1, 10_000))
    times = segment.with_suffix(".timeindex")
    times.write_bytes(struct.pack(">qi", NOW_MS, 1))
    result = dump("--files", times.name)
    assert result.stdout.splitlines()[1:] == [f"timestamp: {NOW_MS} offset: 1"]
    assert "the offset index points at 10000" in result.stderr
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("suffix", "content", "reason"),
    [
        (".index", struct.pack(">ii", -5, 0), "is below the base offset"),
        (".index", struct.pack(">ii", 1, 0) + b"cut", "not a multiple of 8"),
        (".timeindex", struct.pack(">qiqi", 7, 1, 6, 2), "is below the first"),
        (".timeindex", struct.pack(">qi", 7, 1) + b"cut", "not a multiple of 12"),
    ],
)
def test_an_index_that_a_broker_would_rebuild_does_not_pass_the_sanity_check(
    segment: Path, suffix: str, content: bytes, reason: str
) -> None:
    segment.with_suffix(".index").write_bytes(b"")
    index = segment.with_suffix(suffix)
    index.write_bytes(content)
    result = dump("--files", index.name, "--index-sanity-check")
    assert result.stdout.splitlines() == [f"Dumping {index.name}"]
    assert reason in result.stderr
    assert result.exit_code == 1


def test_an_aborted_transaction_of_an_unknown_version_is_shown_and_told(here: Path) -> None:
    (here / f"{SEGMENT}.txnindex").write_bytes(struct.pack(">hqqqq", 3, 1, 2, 3, 4))
    result = dump("--files", f"{SEGMENT}.txnindex")
    assert result.stdout.splitlines()[1:] == [
        "version: 3 producerId: 1 firstOffset: 2 lastOffset: 3 lastStableOffset: 4"
    ]
    assert "only 0 is known" in result.stderr
    assert result.exit_code == 1


def test_a_producer_snapshot_that_was_cut_is_told(kept: tuple[Path, dict[str, Output]], here: Path) -> None:
    whole = next((kept[0] / "golden" / "transactions-0").glob("*.snapshot")).read_bytes()
    for cut in truncations(whole):
        (here / f"{SEGMENT}.snapshot").write_bytes(cut)
        result = dump("--files", f"{SEGMENT}.snapshot")
        assert result.stderr.startswith(f"{SEGMENT}.snapshot, byte ")
        assert result.exit_code == 1


@pytest.mark.parametrize(
    "name", ["records/00000000000000000000.log", "legacy/00000000000000000000.log", "group/00000000000000000500.log"]
)
@pytest.mark.parametrize("options", [["--print-data-log"], ["--offsets-decoder", "--output", "json"]])
def test_no_damage_gets_more_than_an_error(
    name: str, options: list[str], kept: tuple[Path, dict[str, Output]], here: Path
) -> None:
    whole = (kept[0] / "made" / name).read_bytes()
    for place, damaged in enumerate(mutations(whole, seed=20, rounds=60)):
        (here / f"{SEGMENT}.log").write_bytes(damaged)
        result = dump("--files", f"{SEGMENT}.log", *options)  # an exception would come through
        assert result.exit_code in (0, 1), f"seed 20, round {place}"
        assert result.stdout, f"seed 20, round {place}"


# Records that are not what the decoder reads


def test_a_number_that_is_cut_short_is_told_and_the_next_record_shown(segment: Path) -> None:
    segment.write_bytes(batch(0, b"123", struct.pack(">i", -7)))
    result = dump("--files", segment.name, "--skip-record-metadata", "--value-decoder-class", f"{API}.IntegerDecoder")
    assert shown(result) == ["key: k payload: -7"]
    assert result.stderr == (
        f"{segment.name}: the record at offset 0 cannot be decoded: an integer has 4 bytes, and there are 3\n"
    )
    assert result.exit_code == 1


def test_bytes_are_shown_in_hexadecimal(segment: Path) -> None:
    result = dump("--files", segment.name, "--skip-record-metadata", "--value-decoder-class", f"{API}.DefaultDecoder")
    assert shown(result)[0] == "key: k payload: 61"


def test_a_coordinators_record_without_a_key_is_told(segment: Path) -> None:
    segment.write_bytes(build_batch([Record(0, NOW_MS, None, b"v")]))
    result = dump("--files", segment.name, "--offsets-decoder")
    assert result.stdout.splitlines()[-1].endswith("headerKeys: []")
    assert "a record of __consumer_offsets has a key" in result.stderr
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("option", "key", "value", "line"),
    [
        ("--offsets-decoder", b"\0", b"", "key: Error at offset 0, skipping. key.type at byte 0: needs 2 bytes"),
        ("--offsets-decoder", b"\0\2\0\1", b"", "key: Error at offset 0, skipping. GroupMetadataKey.group"),
        ("--offsets-decoder", b"\0\2\0\1g", b"", "key: Error at offset 0, skipping. GroupMetadataValue.version"),
        ("--offsets-decoder", b"\0\2\0\1g", b"\0\x63", "key: Error at offset 0, skipping. GroupMetadataValue.version"),
        ("--cluster-metadata-decoder", None, b"\0", "payload: Error at 0, skipping. MetadataRecord.frame_version"),
        ("--cluster-metadata-decoder", None, None, "payload: Error at 0, skipping. The record has no value"),
        ("--remote-log-metadata-decoder", None, b"\x01", "payload: Error at offset 0, skipping. RemoteLogMetadata"),
        ("--remote-log-metadata-decoder", None, b"\x01\x09\0", "payload: Error at offset 0, skipping. RemoteLogMeta"),
        ("--remote-log-metadata-decoder", None, None, "payload: Error at offset 0, skipping. The record has no value"),
    ],
)
def test_a_record_that_cannot_be_read_is_passed_over_as_kafkas_tool_does(
    segment: Path, option: str, key: bytes | None, value: bytes | None, line: str
) -> None:
    segment.write_bytes(build_batch([Record(0, NOW_MS, key, value)]))
    result = dump("--files", segment.name, "--skip-record-metadata", option)
    assert shown(result)[0].startswith(line)
    assert result.exit_code == 0


# Mistakes


def test_a_file_that_is_not_there_does_not_keep_the_others_from_being_shown(segment: Path) -> None:
    missing = "00000000000000000007"
    names = [f"{missing}{suffix}" for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")]
    result = dump("--files", ",".join([*names, segment.name]))
    assert result.stderr.splitlines() == [f"{name}: No such file or directory" for name in names]
    assert result.stdout.splitlines()[-4] == "Log starting offset: 0"
    assert result.exit_code == 1


@pytest.mark.parametrize("name", ["notes.txt", "leader-epoch-checkpoint", f"{SEGMENT}.log.deleted"])
def test_a_file_of_another_kind_is_ignored_and_told(segment: Path, name: str) -> None:
    result = dump("--files", f"{name},{segment.name}")
    assert result.stderr == (
        f"Ignoring unknown file {name}: only .log, .checkpoint, .index, .timeindex, .txnindex, .snapshot files "
        "can be dumped\n"
    )
    assert "Log starting offset: 0" in result.stdout
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("orders.log", "the name does not begin with a base offset"),
        ("orders.index", "the name does not begin with a base offset"),
        ("99999999999999999999.log", "the name does not begin with a base offset"),
        ("orders.timeindex", "the name does not begin with a base offset"),
        ("orders.checkpoint", "the name is neither bootstrap.checkpoint nor an offset"),
    ],
)
def test_a_name_that_says_no_offset_is_told(here: Path, name: str, reason: str) -> None:
    (here / name).write_bytes(batch(0, b"v"))
    result = dump("--files", name)
    assert result.stderr.startswith(f"{name}: {reason}")
    assert len(result.stderr.splitlines()) == 1
    assert result.exit_code == 1


def test_an_index_needs_the_files_it_belongs_to(here: Path) -> None:
    for suffix in (".index", ".timeindex"):
        (here / f"{SEGMENT}{suffix}").write_bytes(b"")
    (here / "00000000000000000001.timeindex").write_bytes(b"")
    result = dump("--files", f"{SEGMENT}.index,{SEGMENT}.timeindex,00000000000000000001.timeindex")
    assert result.stderr.splitlines() == [
        f"{SEGMENT}.index: an index is held against its segment, and {SEGMENT}.log is not there",
        f"{SEGMENT}.timeindex: an index is held against its segment, and {SEGMENT}.log is not there",
        "00000000000000000001.timeindex: batches are found with the offset index, and 00000000000000000001.index "
        "is not there",
    ]
    assert result.exit_code == 1


def test_a_directory_with_a_segments_name_is_told(here: Path) -> None:
    (here / f"{SEGMENT}.log").mkdir()
    result = dump("--files", f"{SEGMENT}.log")
    assert result.stderr == f"{SEGMENT}.log: Is a directory\n"
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "Missing option '--files'"),
        (["--files"], "Option '--files' requires an argument"),
        (["--files", "a.log", "--deep"], "No such option '--deep'"),
        (["--files", "a.log", "b.log"], "unexpected extra argument (b.log)"),
        (["--files", "a.log", "--max-bytes", "many"], "'many' is not a valid integer"),
        (["--files", "a.log", "--max-bytes", "-1"], "-1 is not in the range"),
        (["--files", "a.log", "--output", "xml"], "'xml' is not one of"),
        (["--files", "a.log", "--value-decoder-class", "com.example.Mine"], "com.example.Mine is not supported"),
    ],
)
def test_a_mistake_on_the_command_line_is_answered_in_one_line(arguments: Sequence[str], reason: str) -> None:
    result = dump(*arguments)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.exit_code == 1


def test_files_may_be_given_in_several_lists(segment: Path) -> None:
    result = dump("--files", segment.name, "--files", f"{segment.name},,{segment.name}")
    assert result.stdout.count(f"Dumping {segment.name}\n") == 3
    assert result.exit_code == 0


def test_the_version_is_shown() -> None:
    result = dump("--version")
    assert result.stdout.strip()
    assert result.exit_code == 0


# A process of its own


def test_help_and_mistakes_load_nothing_that_reads_logs() -> None:
    script = "import sys, ottla.cli.dump_log; print(sorted(name for name in sys.modules if name.startswith('ottla.')))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "['ottla.cli', 'ottla.cli.dump', 'ottla.cli.dump.options', 'ottla.cli.dump_log']"


def test_a_reader_that_goes_away_ends_the_dump_quietly(segment: Path) -> None:
    segment.write_bytes(batch(0, *[b"v"] * 100) * 200)
    command_line = [sys.executable, "-m", "ottla.cli.main", "dump-log", "--files", segment.name, "--print-data-log"]
    with subprocess.Popen(command_line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=segment.parent) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == f"Dumping {segment.name}\n".encode()
        process.stdout.close()
        assert process.stderr.read() == b""


def test_the_dump_of_a_large_segment_needs_little_memory(segment: Path) -> None:
    with segment.open("wb") as file:
        for place in range(64):
            file.write(batch(10 * place, *[bytes(50_000)] * 10))
    dump("--files", segment.name, "--max-bytes", "0")  # so that modules are loaded already
    tracemalloc.start()
    try:
        result = dump("--files", segment.name, "--deep-iteration")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(result.stdout.splitlines()) == 2 + 64 * 11
    assert segment.stat().st_size > 30_000_000
    assert peak < 5_000_000


# Text as Java has it


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (9.99e-4, "9.99E-4"),
        (1e-4, "1.0E-4"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (-12345678.9, "-1.23456789E7"),
        (1e300, "1.0E300"),
        (5e-324, "4.9E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_a_double_is_written_as_java_writes_it(value: float, text: str) -> None:
    assert double_text(value) == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        ("größe \N{PILE OF POO}".encode(), "größe \N{PILE OF POO}"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"\xe2\x82", "\ufffd"),
        (b"\xed\xa0\x80", "\ufffd"),  # a surrogate is one character to Java, and three to Python
        (b"\xed\xbfA", "\ufffdA"),
        (b"\xed\x9f\xbf", "\ud7ff"),
        (b"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"),
    ],
)
def test_broken_utf8_is_replaced_where_java_replaces_it(data: bytes, text: str) -> None:
    assert utf8_text(data) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, None, True, {}], "ü": False}, '{"a":[1,null,true,{}],"ü":false}'),
        ('\0\x1f\x7f"\\/\b\n', r'"\u0000\u001F' + "\x7f" + r'\"\\/\b\n"'),
        (r"\u001f", r'"\\u001f"'),
        ([1e10, float("inf")], '[1.0E10,"Infinity"]'),
    ],
)
def test_json_is_written_as_jackson_writes_it(value: Json, text: str) -> None:
    assert json_text(value) == text


@pytest.mark.parametrize(
    ("given", "path", "base", "suffix"),
    [
        ("a//b///0.log", "a/b/0.log", "0.log", ".log"),
        ("./0.log", "./0.log", "0.log", ".log"),
        ("a/b.c/", "a/b.c", "b.c", ".c"),
        ("a.b/c", "a.b/c", "c", ""),
        ("//", "/", "", ""),
        ("", "", "", ""),
    ],
)
def test_a_path_is_spelled_as_javas_file_spells_it(given: str, path: str, base: str, suffix: str) -> None:
    name = FileName.of(given)
    assert (name.path, name.base, name.suffix) == (path, base, suffix)
    assert name.absolute == (path if path.startswith("/") else f"{os.getcwd()}/{path}")


@pytest.mark.parametrize(
    ("class_name", "name"),
    [
        ("TopicRecord", "TOPIC_RECORD"),
        ("NoOpRecord", "NO_OP_RECORD"),
        ("RemoveUserScramCredentialRecord", "REMOVE_USER_SCRAM_CREDENTIAL_RECORD"),
    ],
)
def test_a_record_type_has_kafkas_name(class_name: str, name: str) -> None:
    assert record_type_name(class_name) == name
