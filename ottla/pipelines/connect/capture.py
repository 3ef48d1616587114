"""Change data capture: a replication slot of PostgreSQL, read into the spool of a pipeline.

    first run:  publication -> note of the slot -> slot with an exported snapshot -> rows of the snapshot -> position
    then:       START_REPLICATION at the position -> transactions -> files and position -> status

Three things know how far they are, and each follows the one before it: the spool has what the database has
committed, the checkpoint has what Spark has written, and PostgreSQL is told (`flush` of a status) what the checkpoint
has. What is told too late is not sent again, because the stream begins at the position; nothing is told too early. Why
a spool and not the slot alone: the rows of a snapshot can be read only while its transaction is open, so a micro-batch
of them that is done again needs them on a disk; a transaction larger than memory needs one too; and with it a slow sink
does not keep a walsender waiting. Its price is that every change is written once more. A cut anywhere leaves:

- before the first position: a note and perhaps a slot, which the next run drops, to take the snapshot anew;
- before a position: lines that nobody has seen, which come again;
- after it, before the checkpoint: files, which Spark reads as the same micro-batch;
- after the checkpoint, before the status: WAL that PostgreSQL keeps, and does not send again.

Promises: a transaction is whole in one micro-batch; a server is answered within a third of its `wal_sender_timeout`,
also while the spool is full; a connection that breaks is made anew for up to `RECONNECT_S`. Called by `runner` and
`reset`.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.pipelines.connect.change_spool import ChangeSpool, Position, Slot
from ottla.pipelines.connect.changes import Changes, SchemaChanged, Settings, Snapshot
from ottla.pipelines.connect.errors import listed, nearest
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.postgresql import catalog, pgoutput
from ottla.pipelines.postgresql.catalog import Table
from ottla.pipelines.postgresql.connection import (
    Address,
    Connection,
    Interrupted,
    Unavailable,
    identifier,
    literal,
)
from ottla.pipelines.postgresql.pgoutput import Begin, Commit, Keepalive, Relation, lsn_of, lsn_text
from ottla.pipelines.postgresql.types import Types

if TYPE_CHECKING:
    from ottla.pipelines.connect.spec import Part, Pipeline

log = logging.getLogger(__name__)

SERVER_VERSION_MIN = 110000
"""Slots can be advanced from then on; pgoutput is one version older."""
STATUS_S = 10.0
LINGER_S = 0.1
"""How long a transaction waits for others to share its file."""
PING_S = 0.2
FULL_S = 0.05
FILE_BYTES = 16 << 20
SPOOL_BYTES_MAX = 1 << 30
"""What may wait for Spark before no more is read; PostgreSQL keeps it meanwhile."""
RECONNECT_S = 300.0
BACKOFF_S = (0.2, 10.0)
CLOSE_S = 30.0


def address_of(source: Part) -> Address:
    options = source.options
    return Address(
        options["database-hostname"], options["database-port"], options["database-dbname"], options["database-user"],
        options.get("database-password"), options["database-sslmode"], options.get("database-sslrootcert"),
        options.get("database-sslcert"), options.get("database-sslkey"),
    )  # fmt: skip


def slot_of(pipeline: Pipeline) -> str:
    """The slot's name: that of the pipeline, in the letters that PostgreSQL has for it."""
    made = "ottla_" + re.sub(r"[^a-z0-9_]", "_", pipeline.name.lower())
    return str(pipeline.source.options.get("slot-name") or made[:63])


def publication_of(pipeline: Pipeline) -> str:
    return str(pipeline.source.options.get("publication-name") or slot_of(pipeline))


class Capture:
    """The reading side of a source `postgresql-cdc`."""

    def __init__(self, pipeline: Pipeline, spool: Path, is_asked_to_stop: Callable[[], bool]) -> None:
        self._pipeline = pipeline
        self._options: Mapping[str, Any] = pipeline.source.options
        self._address = address_of(pipeline.source)
        self._slot = slot_of(pipeline)
        self._publication = publication_of(pipeline)
        self._spool = ChangeSpool(spool)
        self._is_asked_to_stop = is_asked_to_stop
        self._closes = threading.Event()
        self._thread: threading.Thread | None = None
        self._confirmed_offset = 0
        self._wal_end = 0
        self._slot_lsn = 0
        """Up to where PostgreSQL knows that it may forget."""
        self._system = ""
        self._types = Types({})
        self._status_s = STATUS_S
        self.failure: PipelineError | None = None
        """Why no more comes."""
        self.tables: list[Table] = []

    # What the runner calls

    def open(self) -> None:
        """Look at the database: whether it can be captured, which tables there are. Makes the publication."""
        with self._connection(replication=True) as connection:
            self._check_server(connection)
            self._types = catalog.types(connection)
            self.tables = self._chosen(connection)
            self._check_columns()
            self._check_slot(connection)
            self._prepare_publication(connection)

    def catch_up(self) -> None:
        """Read what there is by now; `Interrupted` when somebody asks to stop before that."""
        self._read(is_bounded=True)

    def start(self) -> None:
        """Read for as long as the pipeline runs, beside it."""
        self._thread = threading.Thread(target=self._run, name="postgresql-cdc", daemon=True)
        self._thread.start()

    def confirm(self, offset: int) -> None:
        """The checkpoint has all records before this one."""
        self._confirmed_offset = max(self._confirmed_offset, offset)

    @property
    def has_pending(self) -> bool:
        """Whether something is in the spool that the checkpoint does not have."""
        return self._confirmed_offset < self._spool.next_offset

    @property
    def slot_lag_bytes(self) -> int | None:
        """How much of the WAL the slot holds back, as far as the server has told."""
        return max(0, self._wal_end - self._slot_lsn) if self._wal_end and self._slot_lsn else None

    def finish(self) -> None:
        """After a run to an end: PostgreSQL may forget what was read and written."""
        self.close()
        self._spool.confirm(self._confirmed_offset)
        lsn = self._spool.confirmed_lsn
        if lsn <= self._slot_lsn:
            return
        with Connection(self._address) as connection:
            slot, to = literal(self._slot), literal(lsn_text(lsn))
            connection.rows(f"SELECT pg_catalog.pg_replication_slot_advance({slot}, {to})")

    def close(self) -> None:
        self._closes.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    # Before the first record

    def _connection(self, *, replication: bool = False) -> Connection:
        return Connection(self._address, replication=replication, is_interrupted=self._is_interrupted)

    def _is_interrupted(self) -> bool:
        return self._closes.is_set() or self._is_asked_to_stop()

    def _check_server(self, connection: Connection) -> None:
        version = catalog.server_version(connection)
        if version < SERVER_VERSION_MIN:
            raise PipelineError(f"{self._address} is PostgreSQL {version // 10000}, and 11 or later is needed")
        level = connection.rows("SHOW wal_level")[0][0]
        if level != "logical":
            raise PipelineError(
                f"{self._address} has wal_level {level}: `ALTER SYSTEM SET wal_level = logical` and a restart of the "
                "server let it be captured"
            )
        system = connection.rows("IDENTIFY_SYSTEM")[0][0]
        self._system = f"{system}/{self._address.database}"
        timeout = connection.rows("SELECT setting FROM pg_catalog.pg_settings WHERE name = 'wal_sender_timeout'")
        timeout_ms = int(timeout[0][0] or 0)
        self._status_s = min(STATUS_S, timeout_ms / 3000) if timeout_ms else STATUS_S

    def _chosen(self, connection: Connection) -> list[Table]:
        """The tables that the list includes."""
        there = catalog.names(connection)
        chosen: dict[int, catalog.TableName] = {}
        for pattern in self._options["table-include-list"]:
            found = [one for one in there if re.fullmatch(pattern, str(one))]
            if not found:
                names = [str(one) for one in there]
                hint = nearest(pattern, names) if names else "there are no tables"
                raise self._wrong("table-include-list", f"there is no table {pattern}: {hint}")
            chosen |= {one.oid: one for one in found}
        return catalog.tables(connection, list(chosen.values()), self._types)

    def _check_columns(self) -> None:
        for pattern in self._options.get("column-exclude-list", ()):
            if not any(re.fullmatch(pattern, f"{table}.{one.name}") for table in self.tables for one in table.columns):
                raise self._wrong("column-exclude-list", f"there is no column {pattern}, as schema.table.column")
        excluded = self.excluded
        for table in self.tables:
            kept = [one for one in table.columns if (table.schema, table.name, one.name) not in excluded]
            for name in table.key:
                if (table.schema, table.name, name) in excluded:
                    raise self._wrong("column-exclude-list", f"{table}.{name} is part of the key")
            if not self._options["include-unknown-datatypes"]:
                for one in kept:
                    if not one.type.is_known:
                        raise self._wrong(
                            "table-include-list",
                            f"{table}.{one.name} is {one.type_name}, a type that is not known here: "
                            "`column-exclude-list` leaves it out, and `include-unknown-datatypes: true` takes it as "
                            "text",
                        )
            large = [one.name for one in kept if one.may_be_toasted and one.name not in table.key]
            if large and table.identity != "f" and "unavailable-value-placeholder" not in self._options:
                log.warning(
                    "[CDC] PostgreSQL does not send TOASTed values of %s (%s) that an update leaves as they are, which "
                    "makes bad records: `ALTER TABLE %s REPLICA IDENTITY FULL` lets it", table, listed(large), table,
                )  # fmt: skip
            lower = [one.name.lower() for one in kept]
            for one in kept:
                if lower.count(one.name.lower()) > 1:
                    raise self._wrong(
                        "table-include-list",
                        f"{table} has several columns {one.name.lower()!r} in other cases, which Spark takes for one: "
                        "`column-exclude-list` leaves one out",
                    )
            if table.identity == "n" or (table.identity == "d" and not table.key):
                log.warning(
                    "[CDC] %s has no primary key and no replica identity: its records have no key, and PostgreSQL "
                    "refuses updates and deletions of it while it is published", table,
                )  # fmt: skip

    def _check_slot(self, connection: Connection) -> None:
        noted, position = self._spool.slot, self._spool.position
        mine = f"{self._slot} of {self._address}"
        if noted is not None and (noted.name, noted.system) != (self._slot, self._system):
            raise PipelineError(
                f"the spool {self._spool.path} is that of the slot {noted.name} of the system {noted.system}, and the "
                f"file names the slot {self._slot} of {self._system}: `ottla pipeline reset` begins anew"
            )
        found = connection.rows(
            "SELECT plugin, database, confirmed_flush_lsn, restart_lsn FROM pg_catalog.pg_replication_slots "
            f"WHERE slot_name = {literal(self._slot)}"
        )
        if not found:
            if position is not None:
                raise PipelineError(
                    f"the replication slot {mine} is gone, and what changed since {lsn_text(position.lsn)} with it: "
                    "`ottla pipeline reset` begins anew, with another snapshot"
                )
            return
        if noted is None:
            raise PipelineError(
                f"the replication slot {mine} is there already, and this pipeline has not made it: another "
                f"`slot-name` leaves it alone, and `SELECT pg_drop_replication_slot('{self._slot}')` removes it"
            )
        if position is None:
            return  # a run was cut short in its snapshot
        confirmed, restart = found[0][2], found[0][3]
        if restart is None:
            raise PipelineError(
                f"the replication slot {mine} has lost WAL that was not read, by max_slot_wal_keep_size: "
                "`ottla pipeline reset` begins anew, with another snapshot"
            )
        self._slot_lsn = lsn_of(confirmed or "0/0")
        if self._slot_lsn > position.lsn:
            raise PipelineError(
                f"the replication slot {mine} was read up to {confirmed} by somebody else, and the spool has only what "
                f"is before {lsn_text(position.lsn)}: `ottla pipeline reset` begins anew, with another snapshot"
            )

    def _prepare_publication(self, connection: Connection) -> None:
        name, version = self._publication, catalog.server_version(connection)
        there = connection.rows(
            f"SELECT pubinsert, pubupdate, pubdelete FROM pg_catalog.pg_publication WHERE pubname = {literal(name)}"
        )
        if not there:
            self._make_publication(connection, version)
        elif self._spool.slot is None:
            self._spool.note_slot(Slot(self._slot, self._system))
        for published, operation in zip(there[0] if there else (), "cud", strict=False):
            if published != "t" and operation not in self._skipped:
                raise self._wrong(
                    "publication-name", f"the publication {name} leaves out changes: "
                    "`publish = 'insert, update, delete, truncate'` has all"
                )  # fmt: skip
        filtered = "rowfilter IS NOT NULL" if version >= 150000 else "false"
        covered = {
            (schema, table): has_filter == "t"
            for schema, table, has_filter in connection.rows(
                f"SELECT schemaname, tablename, {filtered} FROM pg_catalog.pg_publication_tables "
                f"WHERE pubname = {literal(name)}"
            )
        }
        for one in self.tables:
            if (one.schema, one.name) not in covered:
                raise self._wrong(
                    "publication-name",
                    f"the publication {name} does not have {one}: `ALTER PUBLICATION {identifier(name)} ADD TABLE "
                    f"{identifier(one.schema)}.{identifier(one.name)}` lets its changes come from then on, and a reset "
                    "has its rows of before as well",
                )
            if covered[one.schema, one.name]:
                raise self._wrong(
                    "publication-name", f"the publication {name} has a row filter on {one}, which a snapshot has not: "
                    "use a `filter` among the transforms"
                )  # fmt: skip

    def _make_publication(self, connection: Connection, version: int) -> None:
        name, mode = self._publication, self._options["publication-autocreate-mode"]
        if mode == "disabled":
            raise self._wrong("publication-name", f"there is no publication {name}, and autocreate is disabled")
        if self._spool.position is not None:
            raise PipelineError(
                f"the publication {name} of {self._address} is gone, and without it the slot cannot be read: "
                "`ottla pipeline reset` begins anew, with another snapshot"
            )
        # First the note, by which a reset knows that the publication is the pipeline's.
        self._spool.note_slot(Slot(self._slot, self._system, name))
        told = " WITH (publish_via_partition_root = true)" if version >= 130000 else ""
        tables = ", ".join(f"{identifier(one.schema)}.{identifier(one.name)}" for one in self.tables)
        which = "ALL TABLES" if mode == "all_tables" else f"TABLE {tables}"
        connection.rows(f"CREATE PUBLICATION {identifier(name)} FOR {which}{told}")

    def _wrong(self, option: str, message: str) -> PipelineError:
        return self._pipeline.wrong(("source", option), message)

    @property
    def excluded(self) -> frozenset[tuple[str, str, str]]:
        """The columns that are left out."""
        patterns = self._options.get("column-exclude-list", ())
        return frozenset(
            (table.schema, table.name, one.name)
            for table in self.tables
            for one in table.columns
            if any(re.fullmatch(pattern, f"{table}.{one.name}") for pattern in patterns)
        )

    @property
    def _skipped(self) -> frozenset[str]:
        return frozenset(self._options["skipped-operations"]) - {"none"}

    def _settings(self) -> Settings:
        from ottla import __version__

        options = self._options
        return Settings(
            options.get("topic-prefix") or self._pipeline.name, self._address.database, __version__,
            options["tombstones-on-delete"], self._skipped, self.excluded, options["include-unknown-datatypes"],
            options.get("unavailable-value-placeholder"),
        )  # fmt: skip

    # Reading

    def _run(self) -> None:
        try:
            self._read(is_bounded=False)
        except Interrupted:
            pass
        except PipelineError as error:
            self.failure = error
        except Exception as error:  # whatever it is, the pipeline must not look as if it ran
            log.exception("[CDC] reading %s failed", self._address)
            self.failure = PipelineError(f"reading {self._address} failed: {type(error).__name__}: {error}")

    def _read(self, *, is_bounded: bool) -> None:
        """Snapshot, if there was none, and stream, up to the end of now or for ever; over connections that break."""
        wait_s, since = BACKOFF_S[0], time.monotonic()
        until: int | None = None
        while True:
            before = self._spool.position
            try:
                if self._spool.position is None or (is_bounded and until is None):
                    with self._connection() as connection:
                        self._prepare_snapshot(connection)
                        if is_bounded:
                            until = lsn_of(connection.rows("SELECT pg_catalog.pg_current_wal_flush_lsn()")[0][0] or "")
                self._stream(until)
                return
            except Unavailable as error:
                self._spool.discard()
                if self._spool.position != before:
                    wait_s, since = BACKOFF_S[0], time.monotonic()
                if time.monotonic() - since > RECONNECT_S:
                    raise Unavailable(f"{error}: tried again for {RECONNECT_S:.0f} s") from None
                log.warning("[CDC] %s; another try in %.1f s", error, wait_s)
                self._sleep(wait_s)
                wait_s = min(wait_s * 2, BACKOFF_S[1])
            except BaseException:
                self._spool.discard()
                raise

    def _sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._is_interrupted():
                raise Interrupted(f"{self._address}: the pipeline stops")
            self._closes.wait(min(left, PING_S))

    def _prepare_snapshot(self, connection: Connection) -> None:
        """Make the slot, and read what was there before it, unless that is done."""
        if self._spool.position is not None:
            return
        slot = literal(self._slot)
        if connection.rows(f"SELECT 1 FROM pg_catalog.pg_replication_slots WHERE slot_name = {slot}"):
            connection.rows(f"SELECT pg_catalog.pg_drop_replication_slot({slot})")
        with self._connection(replication=True) as maker:
            has_rows = self._options["snapshot-mode"] == "initial"
            export = "EXPORT_SNAPSHOT" if has_rows else "NOEXPORT_SNAPSHOT"
            made = maker.rows(f"CREATE_REPLICATION_SLOT {identifier(self._slot)} LOGICAL pgoutput {export}")
            lsn = lsn_of(made[0][1] or "")
            offset = 0
            if has_rows:
                connection.rows("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                connection.rows(f"SET TRANSACTION SNAPSHOT {literal(made[0][2] or '')}")
                offset = self._read_snapshot(connection, lsn)
                connection.rows("COMMIT")
        self._slot_lsn = lsn
        self._spool.publish(Position(offset, lsn, self._slot, self._system))
        log.info("[CDC] the snapshot of %s at %s has %d rows", self._address, lsn_text(lsn), offset)

    def _read_snapshot(self, connection: Connection, lsn: int) -> int:
        """Write all rows; how many there were."""
        names = {one.oid: one for one in catalog.names(connection)}
        now = catalog.tables(connection, [names[one.oid] for one in self.tables if one.oid in names], self._types)
        if now != self.tables:
            raise SchemaChanged("the tables have changed while the pipeline began: start it again")
        records = Snapshot(self._settings(), self._types, 0, _now_ms)
        time_us = time.time_ns() // 1000
        for table in self.tables:
            columns = ", ".join(identifier(one.name) for one in table.columns)
            only = "" if table.is_partitioned else "ONLY "
            sql = f"SELECT {columns} FROM {only}{identifier(table.schema)}.{identifier(table.name)}"
            rows = connection.copied_out(f"COPY ({sql}) TO STDOUT")
            for line in records.lines(table, rows, lsn=lsn, time_us=time_us):
                self._spool.write((line,))
                if self._spool.open_bytes >= FILE_BYTES:
                    self._spool.roll(records.offset, lsn)
        self._spool.roll(records.offset, lsn)
        return records.offset

    def _stream(self, until: int | None) -> None:
        position = self._spool.position
        assert position is not None, "the snapshot has one"
        with self._connection(replication=True) as connection:
            told = {"proto_version": "1", "publication_names": identifier(self._publication)}
            connection.start_replication(self._slot, lsn_text(position.lsn), told)
            stream = _Stream(self, connection, position)
            while until is None or not stream.has_reached(until):
                if self._is_interrupted():
                    raise Interrupted(f"{self._address}: the pipeline stops")
                self._spool.confirm(self._confirmed_offset)
                if self._spool.pending_bytes > SPOOL_BYTES_MAX:
                    self._closes.wait(FULL_S)
                else:
                    try:
                        stream.take(PING_S)
                    except SchemaChanged:
                        stream.publish_committed()  # which came under the schema of before
                        raise
                stream.publish_if_due()
                stream.tell_if_due(is_asked=until is not None)

    def _check_relation(self, relation: Relation) -> Types:
        """A table is not as the run knows it: whether it has changed since the run began."""
        with self._connection() as connection:
            types = catalog.types(connection)
            names = [
                one for one in catalog.names(connection) if (one.schema, one.name) == (relation.schema, relation.name)
            ]
            found = catalog.tables(connection, names, types)
        (was,) = (one for one in self.tables if (one.schema, one.name) == (relation.schema, relation.name))
        again = "start the pipeline again, and its records have the table as it is then"
        if not found:
            raise SchemaChanged(f"the table {was} is gone: {again}")
        now = {one.name: one for one in found[0].columns}
        for column in was.columns:
            if (was.schema, was.name, column.name) in self.excluded:
                continue
            if column.name not in now:
                raise SchemaChanged(f"the column {column.name} of {was} is gone: {again}")
            if now[column.name].type.ddl != column.type.ddl:
                new = now[column.name]
                raise SchemaChanged(
                    f"the column {column.name} of {was} was {column.type_name} and is {new.type_name}: {again}"
                )
        if found[0].key != was.key:
            raise SchemaChanged(
                f"the key of {was} was {', '.join(was.key) or 'none'} and is {', '.join(found[0].key) or 'none'}: "
                f"{again}"
            )
        return types


class _Stream:
    """One connection's stream: what came, what of it is in the spool, and when the server was told last."""

    def __init__(self, capture: Capture, connection: Connection, position: Position) -> None:
        self._capture = capture
        self._connection = connection
        self._spool = capture._spool
        self._begin_lsn = position.lsn
        self._changes = Changes(
            capture._settings(), capture._types, position.offset, _now_ms,
            tables=capture.tables, check=capture._check_relation,
        )  # fmt: skip
        self._reached = position.lsn
        """Everything before this has come."""
        self._committed = position
        """Up to the end of the last transaction."""
        self._linger_until: float | None = None
        self._told_at = 0.0
        self._status = b""

    def has_reached(self, lsn: int) -> bool:
        return self._reached >= lsn and not self._changes.is_in_transaction and not self._spool.open_bytes

    def take(self, timeout_s: float) -> None:
        """Take what comes; as long as something comes, for no longer than the server may wait."""
        now = time.monotonic()
        due = [self._told_at + self._capture._status_s - now, timeout_s]
        if self._linger_until is not None:
            due.append(self._linger_until - now)
        for data in self._connection.received(max(0.0, min(due))):
            message = pgoutput.replication_message(data)
            if isinstance(message, Keepalive):
                self._on_keepalive(message)
            else:
                self._capture._wal_end = max(self._capture._wal_end, message.wal_end)
                self._on_change(pgoutput.decoded(message.data), message.lsn)
            self.tell_if_due()

    def _on_keepalive(self, message: Keepalive) -> None:
        self._capture._wal_end = max(self._capture._wal_end, message.wal_end)
        if not self._changes.is_in_transaction:
            self._reached = max(self._reached, message.wal_end)
        if message.wants_reply:
            self._tell()

    def _on_change(self, message: pgoutput.Message, lsn: int) -> None:
        if isinstance(message, Begin) and message.final_lsn < self._begin_lsn:
            raise PipelineError(
                f"the transaction {message.xid} of {lsn_text(message.final_lsn)} comes again, and the spool has it"
            )
        self._spool.write(self._changes.lines(message, lsn))
        if isinstance(message, Commit):
            self._reached = max(self._reached, message.end_lsn)
            self._committed = replace(self._committed, offset=self._changes.offset, lsn=self._reached)
            self._spool.mark()
            if self._linger_until is None and self._spool.open_bytes:
                self._linger_until = time.monotonic() + LINGER_S
            self.publish_if_due()

    def publish_if_due(self) -> None:
        if self._linger_until is None or self._changes.is_in_transaction:
            return
        if self._spool.open_bytes >= FILE_BYTES or time.monotonic() >= self._linger_until:
            self._publish()

    def publish_committed(self) -> None:
        """Of what came, the transactions that are whole."""
        self._spool.cut()
        if self._spool.open_bytes:
            self._spool.publish(self._committed)

    def _publish(self) -> None:
        position = self._spool.position
        assert position is not None, "the stream began at one"
        self._spool.publish(replace(position, offset=self._changes.offset, lsn=self._reached))
        self._linger_until = None

    def tell_if_due(self, *, is_asked: bool = False) -> None:
        """Tell the server how far we are, in time; `is_asked` wants to hear how far it is."""
        now = time.monotonic()
        if now - self._told_at >= (PING_S if is_asked else self._capture._status_s):
            self._tell(wants_reply=is_asked)

    def _tell(self, *, wants_reply: bool = False) -> None:
        spool, position = self._spool, self._spool.position
        assert position is not None, "the stream began at one"
        is_idle = not spool.open_bytes and not self._changes.is_in_transaction
        if is_idle and self._reached > position.lsn:
            # Other tables' WAL: what is told has to be in the position first, which the slot must never be ahead of.
            self._publish()
        spool.confirm(self._capture._confirmed_offset)
        flushed = spool.confirmed_lsn
        assert spool.position is not None, "likewise"
        data = pgoutput.status_update(
            written=spool.position.lsn, flushed=flushed, now_us=time.time_ns() // 1000, wants_reply=wants_reply
        )
        self._connection.send_status(data)
        self._capture._slot_lsn = max(self._capture._slot_lsn, flushed)
        self._told_at = time.monotonic()


def drop(pipeline: Pipeline, slot: Slot) -> None:
    """Drop what a pipeline has in the database: its slot, and the publication that was made with it."""
    with Connection(address_of(pipeline.source)) as connection:
        name = literal(slot.name)
        _end_walsender(connection, name)
        if connection.rows(f"SELECT 1 FROM pg_catalog.pg_replication_slots WHERE slot_name = {name}"):
            connection.rows(f"SELECT pg_catalog.pg_drop_replication_slot({name})")
        if slot.publication is not None:
            connection.rows(f"DROP PUBLICATION IF EXISTS {identifier(slot.publication)}")


def _end_walsender(connection: Connection, slot: str) -> None:
    """A run that was killed leaves its walsender for a moment, and a slot that is read cannot be dropped."""
    deadline = time.monotonic() + CLOSE_S
    sql = f"SELECT active_pid FROM pg_catalog.pg_replication_slots WHERE slot_name = {slot} AND active"
    while rows := connection.rows(sql):
        if time.monotonic() > deadline:
            raise PipelineError(f"the replication slot {slot} is read by the process {rows[0][0]}: end that one first")
        time.sleep(PING_S)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
