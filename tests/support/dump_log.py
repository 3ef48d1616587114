"""What Kafka's own dump tool prints: files to dump, command lines, and the output of the real tool for each.

The files are the golden data directory, under `golden`, and those of `dump_log_files`, under `made`. The latter are
kept in `tests/golden/dump-log.tar.xz` with the real tool's output, so that the comparison runs where there is no Java.

To make that archive anew, with Java: `python -m tests.support.dump_log`.
"""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.golden import GOLDEN, golden_data_dir
from tests.support.golden import unpack as unpack_archive
from tests.support.kafka import run_java_raw

ARCHIVE = GOLDEN / "dump-log.tar.xz"
KINDS = ("log", "index", "timeindex", "txnindex", "snapshot", "checkpoint")
API = "org.apache.kafka.tools.api"


class Case(NamedTuple):
    """A command line: its options, and patterns for the files to dump."""

    name: str
    options: Sequence[str]
    patterns: Sequence[str]

    def arguments(self, directory: Path) -> list[str]:
        """The command line, with the files that `directory` has for the patterns."""
        found = [
            str(path.relative_to(directory)) for pattern in self.patterns for path in sorted(directory.glob(pattern))
        ]
        assert found, f"{self.name}: there are no such files"
        return [*self.options, "--files", ",".join(found)]


class Output(NamedTuple):
    """What the tool printed. In `errors` stands `{dir}` for the directory it ran in."""

    lines: str
    errors: str


_GOLDEN = [f"golden/**/*.{kind}" for kind in KINDS]
_LOGS = ["made/records/*.log", "made/records/*.checkpoint"]
_INDEXES = ["made/*index*/*.index", "made/*index*/*.timeindex", "made/*index*/*.txnindex"]

CASES = [
    Case("golden-batches", [], _GOLDEN),
    Case("golden-records", ["--deep-iteration"], _GOLDEN),
    Case("golden-contents", ["--print-data-log"], _GOLDEN),
    Case("golden-contents-alone", ["--print-data-log", "--skip-record-metadata"], _GOLDEN),
    Case("golden-records-alone", ["--deep-iteration", "--skip-record-metadata"], ["golden/transactions-*/*.log"]),
    Case("golden-beginnings", ["--print-data-log", "--max-bytes", "3000"], ["golden/**/*.log"]),
    Case("golden-sanity", ["--index-sanity-check"], ["golden/**/*index"]),
    Case("golden-verify", ["--verify-index-only"], ["golden/**/*index"]),
    Case("golden-offsets", ["--offsets-decoder"], ["golden/__consumer_offsets-*/*.log"]),
    Case("golden-transactions", ["--transaction-log-decoder"], ["golden/__transaction_state-*/*.log"]),
    Case(
        "golden-metadata", ["--cluster-metadata-decoder"], ["golden/__cluster_metadata-0/*.log", "golden/*.checkpoint"]
    ),
    Case("records-batches", [], _LOGS),
    Case("records-contents", ["--print-data-log"], _LOGS),
    Case("records-unnamed-decoder", ["--value-decoder-class"], _LOGS),
    Case(
        "numbers",
        ["--key-decoder-class", f"{API}.LongDecoder", f"--value-decoder-class={API}.IntegerDecoder"],
        ["made/numbers/*.log"],
    ),
    Case("group-records", ["--offsets-decoder"], ["made/group/*.log"]),
    Case("group-contents-alone", ["--offsets-decoder", "--skip-record-metadata"], ["made/group/*.log"]),
    Case("transaction-records", ["--transaction-log-decoder"], ["made/transaction/*.log"]),
    Case("share-records", ["--share-group-state-decoder"], ["made/share/*.log"]),
    Case("metadata-records", ["--cluster-metadata-decoder"], ["made/metadata/*.log"]),
    Case("remote-records", ["--remote-log-metadata-decoder"], ["made/remote/*.log"]),
    Case("two-decoders", ["--share-group-state-decoder", "--offsets-decoder"], ["made/group/*.log"]),
    Case("legacy-batches", [], ["made/legacy/*.log"]),
    Case("legacy-contents", ["--print-data-log"], ["made/legacy/*.log"]),
    Case("damaged-batches", [], ["made/damaged/*.log"]),
    Case("damaged-contents", ["--print-data-log"], ["made/damaged/*.log"]),
    Case("damaged-beginnings", ["--max-bytes", "200"], ["made/damaged/*.log"]),
    Case("indexes", [], _INDEXES),
    Case("indexes-verify", ["--verify-index-only"], _INDEXES),
    Case("indexes-sanity", ["--index-sanity-check"], ["made/index/*index"]),
]


def unpack(directory: Path) -> dict[str, Output]:
    """Lay out the files in `directory`; what the real tool printed, by the names of the cases."""
    golden_data_dir(directory / "golden")
    outputs: dict[str, Output] = {}
    unpack_archive(ARCHIVE, directory)
    for case in CASES:
        kept = [directory / "expected" / f"{case.name}.{stream}" for stream in ("out", "err")]
        outputs[case.name] = Output(*(path.read_bytes().decode() for path in kept))
    return outputs


def run_kafka(directory: Path, case: Case) -> Output:
    """The output of the real tool; it has no reason to fail."""
    process = run_java_raw("org.apache.kafka.tools.DumpLogSegments", case.arguments(directory), cwd=directory)
    return finished(directory, process)


def finished(directory: Path, process: subprocess.CompletedProcess[bytes]) -> Output:
    """The output of a tool that ran in `directory` and ended well."""
    errors = process.stderr.decode()
    assert process.returncode == 0, errors
    return Output(process.stdout.decode(), sorted_blocks(errors.replace(str(directory), "{dir}")))


def sorted_blocks(errors: str) -> str:
    """The findings, file by file, in an order of their own: Kafka prints them as a hash map has them.

    A heading is a line with a path at its end, and its findings follow it.
    """
    blocks = re.split(r"^(?=.*\{dir\})", errors, flags=re.MULTILINE)
    return "".join(sorted(blocks))


def make_archive() -> None:
    """Write the made files and the real tool's output for all cases."""
    from tests.support.dump_log_files import make_files

    with tempfile.TemporaryDirectory() as scratch, tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        directory = Path(scratch)
        golden_data_dir(directory / "golden")
        make_files(directory / "made")
        for path in sorted((directory / "made").rglob("*")):
            if path.is_file():
                _add(archive, str(path.relative_to(directory)), path.read_bytes())
        for case in CASES:
            output = run_kafka(directory, case)
            _add(archive, f"expected/{case.name}.out", output.lines.encode())
            _add(archive, f"expected/{case.name}.err", output.errors.encode())


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    make_archive()
