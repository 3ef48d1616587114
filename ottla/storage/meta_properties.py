"""`meta.properties`: which cluster and node a log directory belongs to, and the directory's own id (KIP-631, KIP-858).

Promises: what is written are the bytes Kafka 4.3 writes, and it is durable when `write` returns. What is read may be
version 0, from the days of ZooKeeper, where little is sure to be there, or version 1, where the cluster and the node
are. A `DamagedFile` names the property that is missing or wrong.
Called by the log manager and by the tool that formats a directory.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.config import MalformedEscape, format_property, read_properties
from ottla.storage import names
from ottla.storage.atomic_file import write_atomically
from ottla.storage.checkpoint import INT32_MAX, parse_number
from ottla.storage.damage import DamagedFile
from ottla.types import Uuid
from ottla.world import Disk

CURRENT_VERSION = 1

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The content of one `meta.properties`."""

    cluster_id: str | None
    node_id: int | None
    directory_id: Uuid | None = None
    version: int = CURRENT_VERSION

    def __post_init__(self) -> None:
        if self.version != 0:
            assert self.cluster_id is not None, "version 1 has a cluster.id"
            assert self.node_id is not None, "version 1 has a node.id"

    def encode(self, now_ms: int) -> bytes:
        """The file's bytes, with the comment and the date that Java puts above."""
        properties = {
            self._node_property: self.node_id,
            "directory.id": self.directory_id,
            "version": self.version,
            "cluster.id": self.cluster_id,
        }
        # Java writes its hash table's order, which for these names is the order above.
        lines = [format_property(name, str(value)) for name, value in properties.items() if value is not None]
        return "\n".join(["#", f"#{java_date(now_ms)}", *lines, ""]).encode("ascii")

    @property
    def _node_property(self) -> str:
        return "node.id" if self.version else "broker.id"


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """What the directory says of itself; None when it has not been formatted."""
    path = f"{directory}/{names.META_PROPERTIES}"
    try:
        data = disk.read(path)
    except FileNotFoundError:
        return None
    return decode_meta_properties(path, data)


def write_meta_properties(disk: Disk, directory: str, properties: MetaProperties, now_ms: int) -> None:
    write_atomically(disk, f"{directory}/{names.META_PROPERTIES}", properties.encode(now_ms))


def decode_meta_properties(path: str, data: bytes) -> MetaProperties:
    """The properties in `data`, which was read from `path`."""
    text = data.decode("latin-1")
    if text and text[-1] not in "\r\n":
        # Java would read on. A cluster id that lost its end would read as the id of another cluster.
        raise DamagedFile(path, "the last line", "a line end", "none")
    try:
        found = read_properties(text)
    except MalformedEscape as error:
        raise DamagedFile(path, f"line {error.line}", "four hexadecimal digits after \\u", error) from None

    if "version" not in found and "broker.id" not in found:
        # Version 0 needs no version line, and every file of version 1 cut above that line would pass for it.
        raise DamagedFile(path, "property version", f"0 to {CURRENT_VERSION}", "none")
    version = parse_number(found.get("version", "0").strip(), CURRENT_VERSION)
    if version < 0:
        raise DamagedFile(path, "property version", f"0 to {CURRENT_VERSION}", repr(found["version"]))
    node_property = "node.id" if version else "broker.id"
    node_id = found.get(node_property)
    if version != 0:
        for name in ("cluster.id", "node.id"):
            if name not in found:
                raise DamagedFile(path, f"property {name}", "a value", "none")
    if node_id is not None and parse_number(node_id, INT32_MAX) < 0:
        raise DamagedFile(path, f"property {node_property}", "a node's number", repr(node_id))
    return MetaProperties(
        cluster_id=found.get("cluster.id"),
        node_id=None if node_id is None else int(node_id),
        directory_id=_directory_id(path, found.get("directory.id")),
        version=version,
    )


def _directory_id(path: str, text: str | None) -> Uuid | None:
    if text is None:
        return None
    try:
        return Uuid.parse(text)
    except ValueError as error:
        raise DamagedFile(path, "property directory.id", "a UUID", error) from None


def java_date(now_ms: int) -> str:
    """The moment as Java's `Date` prints it, in UTC: `Sun Nov 15 19:15:13 UTC 2026`."""
    days, in_day_ms = divmod(now_ms, _DAY_MS)
    seconds = in_day_ms // 1000
    # The calendar repeats every 400 years of 146,097 days. Years are counted from March, so a leap day comes last.
    era, day = divmod(days + 719_468, 146_097)
    year_of_era = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year_of_era + year_of_era // 4 - year_of_era // 100
    from_march = (5 * day + 2) // 153
    day_of_month = day - (153 * from_march + 2) // 5 + 1
    month = (from_march + 2) % 12
    year = year_of_era + 400 * era + (month < 2)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{_DAYS[(days + 3) % 7]} {_MONTHS[month]} {day_of_month:02d} {clock} UTC {year}"
