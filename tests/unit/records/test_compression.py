"""`ottla/records/compression.py`: five codecs in Kafka's framing, with a bound on what comes out."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import cramjam
import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptMessage, MessageTooLarge, UnsupportedCompressionType
from ottla.records import LEVELS, Codec, compress, decompress
from ottla.records.compression import (
    KEPT_BLOCKS_MAX,
    KEPT_BYTES_MAX,
    STEP_BYTES,
    _kept,
    _zstd_library,
    with_decompressed,
)
from tests.unit.records.whole_streams import whole

COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b"".join(b'{"id":%d,"name":"karel","tags":["a","b"]}' % number for number in range(4000))


def label(value: object) -> str:
    return value.label if isinstance(value, Codec) else str(value)


@pytest.mark.parametrize("codec", list(Codec), ids=label)
@pytest.mark.parametrize("size", [0, 1, 32 * 1024, 32 * 1024 + 1, 64 * 1024, 64 * 1024 + 1, len(TEXT)])
def test_what_was_compressed_comes_back(codec: Codec, size: int) -> None:
    data = TEXT[:size]
    assert decompress(codec, compress(codec, data)) == data
    assert decompress(codec, memoryview(compress(codec, bytearray(data)))) == data


@given(data=st.binary(max_size=2000), codec=st.sampled_from(Codec))
def test_any_bytes_come_back(data: bytes, codec: Codec) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", COMPRESSED, ids=label)
def test_text_becomes_smaller_and_noise_hardly_larger(codec: Codec) -> None:
    assert len(compress(codec, TEXT)) < len(TEXT) / 4
    noise = Random(1).randbytes(200_000)
    assert len(compress(codec, noise)) < len(noise) * 1.01
    assert decompress(codec, compress(codec, noise)) == noise


# --- levels ---


@pytest.mark.parametrize(
    ("codec", "level"),
    [(codec, level) for codec, (lowest, highest, default) in LEVELS.items() for level in (lowest, highest, default, 5)],
    ids=label,
)
def test_every_level_of_kafkas_is_written_and_read(codec: Codec, level: int) -> None:
    assert decompress(codec, compress(codec, TEXT, level)) == TEXT


@pytest.mark.parametrize(
    ("codec", "level"),
    [(Codec.GZIP, 0), (Codec.GZIP, 10), (Codec.GZIP, -2), (Codec.LZ4, 0), (Codec.LZ4, 18), (Codec.LZ4, -1),
     (Codec.ZSTD, 23), (Codec.ZSTD, -131073)],
    ids=label,
)  # fmt: skip
def test_a_level_that_kafka_refuses_is_refused(codec: Codec, level: int) -> None:
    with pytest.raises(ValueError, match=f"{codec.label} doesn't support given compression level: {level}"):
        compress(codec, TEXT, level)


@pytest.mark.parametrize(("codec", "low", "high"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 9, 12), (Codec.ZSTD, -50, 19)])
def test_more_effort_makes_smaller_streams(codec: Codec, low: int, high: int) -> None:
    assert len(compress(codec, TEXT, high)) < len(compress(codec, TEXT, low))


# --- Kafka's framing ---


def test_snappy_is_framed_as_java_frames_it() -> None:
    stream = compress(Codec.SNAPPY, TEXT[:40_000])
    assert stream[:16] == b"\x82SNAPPY\0" + b"\0\0\0\1" * 2
    size = int.from_bytes(stream[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(stream[20 : 20 + size])) == TEXT[: 32 * 1024]


def test_lz4_is_a_frame_of_independent_blocks_of_64_kib_without_checksums() -> None:
    stream = compress(Codec.LZ4, TEXT)
    info = lz4.frame.get_frame_info(stream)
    assert stream[:6] == b"\x04\x22\x4d\x18\x60\x40"
    assert (info["block_size"], info["block_linked"], info["block_checksum"]) == (64 * 1024, False, False)
    assert (info["content_checksum"], info["content_size"]) == (False, 0)


def test_gzip_is_what_gzip_reads() -> None:
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    assert gzip.decompress(compress(Codec.GZIP, TEXT, 9)) == TEXT


def test_lz4_frames_of_other_clients_are_read() -> None:
    """Larger blocks, block and content checksums, a stored size: all of it independent blocks."""
    for options in (
        {"block_size": lz4.frame.BLOCKSIZE_MAX4MB},
        {"block_checksum": True},
        {"content_checksum": True},
        {"store_size": True},
    ):
        assert decompress(Codec.LZ4, lz4.frame.compress(TEXT, block_linked=False, **options)) == TEXT


@pytest.mark.parametrize(
    ("position", "value", "reason"),
    [(0, 0x05, "magic"), (4, 0x40, "depend on one another"), (4, 0xA0, "version 2"), (4, 0x61, "reserved"),
     (5, 0x30, "block size"), (5, 0xC0, "block size"), (5, 0x41, "block size"), (6, 0x00, "lz4")],
)  # fmt: skip
def test_an_lz4_header_that_kafka_refuses_is_refused(position: int, value: int, reason: str) -> None:
    stream = bytearray(compress(Codec.LZ4, TEXT))
    stream[position] = value
    with pytest.raises(CorruptMessage, match=reason):
        decompress(Codec.LZ4, stream)


def test_linked_lz4_blocks_which_java_cannot_read_are_refused() -> None:
    with pytest.raises(CorruptMessage, match="depend on one another"):
        decompress(Codec.LZ4, lz4.frame.compress(TEXT, block_linked=True, block_size=lz4.frame.BLOCKSIZE_MAX64KB))


def test_streams_that_follow_one_another_are_read_as_java_reads_them() -> None:
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.ZSTD):
        assert decompress(codec, compress(codec, b"one") + compress(codec, b"two")) == b"onetwo"
    assert decompress(Codec.LZ4, compress(Codec.LZ4, b"one") + compress(Codec.LZ4, b"two")) == b"one"


def test_what_java_takes_for_padding_is_passed_over() -> None:
    assert decompress(Codec.GZIP, compress(Codec.GZIP, TEXT) + bytes(50)) == TEXT
    assert decompress(Codec.LZ4, compress(Codec.LZ4, TEXT) + b"more") == TEXT
    assert decompress(Codec.SNAPPY, compress(Codec.SNAPPY, TEXT) + b"abc") == TEXT


def test_a_bare_snappy_block_is_read_as_java_reads_it() -> None:
    for data in (b"abc", TEXT):
        assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


def test_a_later_snappy_header_of_version_zero_is_refused() -> None:
    stream = compress(Codec.SNAPPY, b"one")
    old = stream[:8] + bytes(8) + stream[16:]
    assert decompress(Codec.SNAPPY, old) == b"one"
    with pytest.raises(CorruptMessage, match="version 0"):
        decompress(Codec.SNAPPY, stream + old)
    with pytest.raises(CorruptMessage, match="inside a header"):
        decompress(Codec.SNAPPY, stream + stream[:10])


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1])
def test_a_snappy_block_size_beyond_the_stream_is_refused(size: int) -> None:
    stream = bytearray(compress(Codec.SNAPPY, TEXT))
    stream[16:20] = size.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptMessage, match="snappy"):
        decompress(Codec.SNAPPY, stream)


# --- damage and bombs ---


@pytest.mark.parametrize("codec", COMPRESSED, ids=label)
def test_every_cut_of_a_stream_is_refused_or_ends_where_java_ends(codec: Codec) -> None:
    """Java stops without complaint when snappy ends between blocks or inside a block's size, and at no zstd at all."""
    content = TEXT[:500]
    stream = compress(codec, content)
    for cut in range(len(stream)):
        if (codec is Codec.SNAPPY and 16 <= cut < 20) or (codec is Codec.ZSTD and cut == 0):
            assert decompress(codec, stream[:cut]) == b""
        else:
            with pytest.raises(CorruptMessage):
                decompress(codec, stream[:cut])


@pytest.mark.parametrize("codec", COMPRESSED, ids=label)
def test_a_damaged_stream_is_refused_or_gives_bytes_within_the_bound(codec: Codec) -> None:
    random = Random(7)
    stream = compress(codec, TEXT[:3000])
    refused = 0
    for _ in range(1500):
        damaged = bytearray(stream)
        for _ in range(random.randrange(1, 4)):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        try:
            assert len(decompress(codec, damaged, bytes_max=100_000)) <= 100_000
        except (CorruptMessage, MessageTooLarge):
            refused += 1
    assert refused > 500


@pytest.mark.parametrize("codec", list(Codec), ids=label)
def test_the_bound_is_exact(codec: Codec) -> None:
    stream = compress(codec, TEXT)
    assert decompress(codec, stream, bytes_max=len(TEXT)) == TEXT
    with pytest.raises(MessageTooLarge, match=f"more than {len(TEXT) - 1} bytes"):
        decompress(codec, stream, bytes_max=len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSED, ids=label)
def test_a_bomb_takes_no_more_memory_than_about_the_bound(codec: Codec, tmp_path: Path) -> None:
    """In a process of its own, because most of the libraries reserve memory that Python does not count.

    They join or grow their output, so that up to twice the bound is in use for a moment; zstd has a window of 2 MiB.
    Not getrusage: a process begins with the maximum of the one that started it.
    """
    bytes_max = 4 * 1024 * 1024
    (tmp_path / "bomb").write_bytes(compress(codec, bytes(128 * 1024 * 1024)))
    (tmp_path / "small").write_bytes(compress(codec, b"small"))
    script = (
        "import re, sys\n"
        "from ottla.errors import MessageTooLarge\n"
        "from ottla.records import Codec, decompress\n"
        "codec = Codec(int(sys.argv[1]))\n"
        "bomb, small = (open(f'{sys.argv[3]}/{name}', 'rb').read() for name in ('bomb', 'small'))\n"
        "decompress(codec, small)\n"
        "def most(): return int(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1]) * 1024\n"
        "before = most()\n"
        "try: decompress(codec, bomb, bytes_max=int(sys.argv[2]))\n"
        "except MessageTooLarge: print(most() - before)\n"
    )
    command = [sys.executable, "-c", script, str(int(codec)), str(bytes_max), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    size = (tmp_path / "bomb").stat().st_size
    assert int(run.stdout) <= 2 * bytes_max + 2 * size + 8 * 1024 * 1024


def test_a_snappy_block_that_claims_gigabytes_is_refused_before_they_are_reserved() -> None:
    claim = b"\xff\xff\xff\xff\x0f" + b"\x00a"
    stream = compress(Codec.SNAPPY, b"")[:16] + len(claim).to_bytes(4, "big") + claim
    for data in (stream, claim):
        with pytest.raises(MessageTooLarge):
            decompress(Codec.SNAPPY, data)


# --- memory that is used again ---


def varied_streams(codec: Codec, random: Random) -> list[bytes]:
    """Streams of sizes around the steps in which they are read; some of several parts, some with a tail, some noise."""
    noise = random.randbytes(STEP_BYTES + 1)
    contents = [TEXT[:size] for size in (0, 1, 700, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, 2 * STEP_BYTES)]
    streams = [compress(codec, content) for content in (*contents, TEXT, noise, bytes(3 * STEP_BYTES), noise + TEXT)]
    streams += [streams[2] + streams[3], streams[4] + streams[0] + streams[2], streams[3] + bytes(9) + streams[2]]
    streams += [streams[4] + b"tail", TEXT[:100], b""]
    match codec:
        case Codec.LZ4:
            options = ({"block_size": lz4.frame.BLOCKSIZE_MAX4MB}, {"block_checksum": True}, {"content_checksum": True},
                       {"store_size": True})  # fmt: skip
            streams += [lz4.frame.compress(noise + TEXT, block_linked=False, **option) for option in options]
        case Codec.ZSTD:
            piecewise = _zstd_library().ZstdCompressor()  # no content size in the header
            streams.append(piecewise.compress(TEXT) + piecewise.flush())
        case Codec.SNAPPY:
            streams += [bytes(cramjam.snappy.compress_raw(content)) for content in contents]
        case Codec.GZIP:
            streams.append(gzip.compress(noise + TEXT))
    return streams


@pytest.mark.parametrize("codec", COMPRESSED, ids=label)
def test_a_stream_read_in_steps_gives_the_bytes_or_the_error_of_one_read_whole(codec: Codec) -> None:
    """Valid, cut and damaged ones, beside bounds that they just keep and just exceed."""
    random = Random(11)
    for stream in varied_streams(codec, random):
        cuts = [stream[: random.randrange(len(stream) + 1)] for _ in range(10)]
        damaged = []
        for _ in range(40):
            copy = bytearray(stream or b"\0")
            for _ in range(random.randrange(1, 4)):
                place = random.choice((random.randrange(len(copy)), random.randrange(min(40, len(copy)))))
                copy[place] = random.randrange(256)
            damaged.append(bytes(copy))
        for data in (stream, *cuts, *damaged):
            content = whole(codec, data, 10**6)
            bounds = (10**6, len(content), len(content) - 1, 1000) if isinstance(content, bytes) else (10**6, 1000)
            for bytes_max in bounds:
                if bytes_max < 0:
                    continue
                found: bytes | tuple[type[Exception], str]
                try:
                    found = decompress(codec, data, bytes_max=bytes_max)
                except (CorruptMessage, MessageTooLarge) as error:
                    found = type(error), error.message
                assert found == whole(codec, data, bytes_max)


@pytest.mark.parametrize("codec", COMPRESSED, ids=label)
def test_the_next_stream_is_decompressed_into_the_same_memory(codec: Codec) -> None:
    decompress(codec, compress(codec, TEXT))
    memory = _kept[-1]
    assert len(TEXT) <= len(memory) <= KEPT_BYTES_MAX
    first = decompress(codec, compress(codec, TEXT))
    second = decompress(codec, compress(codec, TEXT[::-1]))
    assert (first, second) == (TEXT, TEXT[::-1])
    assert _kept[-1] is memory
    memory.append(0)  # refused with a BufferError while anything has a view of it
    del memory[-1]


def test_memory_that_has_become_too_large_is_not_kept() -> None:
    stream = compress(Codec.LZ4, bytes(KEPT_BYTES_MAX + 1))
    assert len(decompress(Codec.LZ4, stream)) == KEPT_BYTES_MAX + 1
    assert all(len(block) <= KEPT_BYTES_MAX for block in _kept)


@pytest.mark.parametrize("codec", COMPRESSED, ids=label)
def test_memory_is_kept_after_a_stream_that_is_refused(codec: Codec) -> None:
    stream = compress(codec, TEXT)
    decompress(codec, stream)
    memory = _kept[-1]
    for data, bytes_max in ((stream[:-5], 10**6), (stream, 1000)):
        with pytest.raises((CorruptMessage, MessageTooLarge)):
            decompress(codec, data, bytes_max=bytes_max)
        assert _kept[-1] is memory


def test_a_stream_that_is_read_while_another_is_in_use_has_memory_of_its_own() -> None:
    outer, inner = compress(Codec.LZ4, TEXT), compress(Codec.ZSTD, TEXT[::-1])

    def use(content: memoryview) -> bytes:
        assert decompress(Codec.ZSTD, inner) == TEXT[::-1]
        return bytes(content)

    assert with_decompressed(Codec.LZ4, outer, use, bytes_max=10**6) == TEXT
    assert len(_kept) <= KEPT_BLOCKS_MAX


def test_threads_that_decompress_at_the_same_time_do_not_share_memory() -> None:
    streams = [
        (codec, compress(codec, text), text) for codec in COMPRESSED for text in (TEXT, TEXT[::-1], TEXT[:70_000])
    ]

    def read(index: int) -> bool:
        codec, stream, text = streams[index % len(streams)]
        return decompress(codec, stream) == text

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(20 * len(streams))))
    assert len(_kept) <= KEPT_BLOCKS_MAX


def test_content_that_is_kept_beyond_its_use_cannot_be_read() -> None:
    kept = with_decompressed(Codec.LZ4, compress(Codec.LZ4, TEXT), lambda content: content, bytes_max=10**6)
    with pytest.raises(ValueError, match="released"):
        bytes(kept)


@pytest.mark.parametrize(
    ("codec", "pages_max"), [(Codec.GZIP, 40), (Codec.SNAPPY, 40), (Codec.LZ4, 40), (Codec.ZSTD, 400)], ids=label
)
def test_a_check_of_one_batch_after_another_uses_the_same_memory(codec: Codec, pages_max: int) -> None:
    """In a process whose `malloc` gives every large block back at once, as each does at first.

    A page fault is the first touch of a page. A batch of 960 KiB has 240 pages, and more than 260 were touched for one
    (zstd: 720); what is left is the libraries' own state. That of zstd has a window as large as a batch, which `malloc`
    learns to keep after the first one.
    """
    script = (
        "import resource, sys\n"
        "from ottla.records import Batch, Codec, RecordBatchBuilder\n"
        "builder = RecordBatchBuilder(codec=Codec(int(sys.argv[1])))\n"
        "for number in range(960): builder.append(number, None, b'%05d' % number * 204)\n"
        "batch = Batch(memoryview(builder.build()), 0)\n"
        "def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "for _ in range(3): batch.check_records()\n"
        "before = faults()\n"
        "for _ in range(20): batch.check_records()\n"
        "print(faults() - before)\n"
    )
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
    command = [sys.executable, "-c", script, str(int(codec))]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)
    assert int(run.stdout) < 20 * pages_max


# --- names, and what is imported ---


def test_codecs_are_known_by_the_names_and_numbers_of_kafka() -> None:
    assert [(codec.label, int(codec)) for codec in Codec] == [
        ("none", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4),
    ]  # fmt: skip
    assert all(Codec.of_name(codec.label) is codec is Codec.of_id(codec) for codec in Codec)
    with pytest.raises(ValueError, match="brotli"):
        Codec.of_name("brotli")
    with pytest.raises(UnsupportedCompressionType, match="5"):
        Codec.of_id(5)


@pytest.mark.parametrize(
    ("codec", "library"),
    [("GZIP", "isal"), ("SNAPPY", "cramjam"), ("LZ4", "lz4"), ("ZSTD", "zstd")],
)
def test_a_codec_imports_its_own_library_and_no_other(codec: str, library: str) -> None:
    script = (
        "import sys\n"
        "from ottla.records import Codec, compress, decompress\n"
        "libraries = {'isal', 'cramjam', 'lz4', 'zstd'}\n"
        "def loaded(): return {part for name in sys.modules for part in name.split('.')} & libraries\n"
        "assert not loaded(), loaded()\n"
        f"decompress(Codec.{codec}, compress(Codec.{codec}, b'x'))\n"
        "print(*loaded())\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.split() == [library]
