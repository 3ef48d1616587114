"""What a writer to topics was told: the options of `df.write` and `df.writeStream`, read once.

Promises: a value that cannot be used raises `PipelineError` with one line that says what would be right; names are
taken in any case, as Spark takes them. Options that are not the sink's (`path`, `checkpointLocation`, the source's) are
passed over, and unknown ones are refused (`option_names`). Needs neither Spark nor a broker.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlparse

from ottla.client.config import ProducerConfig
from ottla.client.config.settings import read_settings
from ottla.errors import InvalidConfig
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.option_names import check_sink
from ottla.pipelines.sink.memory import sink_name

C = TypeVar("C", bound=Enum)

KAFKA = "kafka."
TRANSACTION_TIMEOUT_MS = 900_000
"""As long as a broker allows without being told otherwise (`transaction.max.timeout.ms`): a micro-batch that takes
longer is aborted under its tasks, and none should be for being large."""
NOT_TAKEN = {
    "key.serializer": "keys are written as they are: cast the column",
    "value.serializer": "values are written as they are: cast the column",
    "transactional.id": "it is the option transactionalId",
    "transaction.timeout.ms": "it is the option transactionTimeoutMs",
}


class Delivery(Enum):
    """What the output has when tasks, workers, drivers or brokers fail and are tried again."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


class ForgottenBatch(Enum):
    """What to do with a replayed micro-batch that may or may not be written: its group's offsets have expired."""

    FAIL = "fail"
    WRITE = "write"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of one writer. It goes to the tasks with the writer."""

    kafka: Mapping[str, str]
    """A producer's settings by Kafka's names."""
    topic: str | None
    """The topic of all rows; it wins over a column `topic`."""
    delivery: Delivery
    transactional_id: str | None
    """What the transactions are named after; None where the delivery is at-least-once, or where each batch job has a
    name of its own."""
    transaction_timeout_ms: int
    includes_timestamp: bool
    """Whether the column `timestamp` is the records' time; else that is the time of writing, as with Spark's sink."""
    forgotten_batch: ForgottenBatch = ForgottenBatch.FAIL

    def config(self) -> ProducerConfig:
        """The producer's settings, checked."""
        try:
            return read_settings(ProducerConfig, self.kafka, {})
        except InvalidConfig as error:
            raise PipelineError(f"an option {KAFKA}* cannot be used: {error}") from None


def read_options(given: Mapping[str, str], *, is_streaming: bool) -> SinkOptions:
    """The options as Spark hands them over."""
    check_sink(given)
    options = {name.lower(): value for name, value in given.items()}
    delivery = _delivery(options, is_streaming=is_streaming)
    transactional_id = options.get("transactionalid") or None
    if delivery is Delivery.EXACTLY_ONCE and is_streaming and transactional_id is None:
        transactional_id = _of_checkpoint(options)
    read = SinkOptions(
        kafka=_kafka(options, delivery),
        topic=options.get("topic") or None,
        delivery=delivery,
        transactional_id=transactional_id if delivery is Delivery.EXACTLY_ONCE else None,
        transaction_timeout_ms=_timeout_ms(options),
        includes_timestamp=_flag(options, "includeTimestamp"),
        forgotten_batch=_choice(options, "forgottenBatch", ForgottenBatch) or ForgottenBatch.FAIL,
    )
    read.config()
    return read


def _delivery(options: Mapping[str, str], *, is_streaming: bool) -> Delivery:
    default = Delivery.EXACTLY_ONCE if is_streaming else Delivery.AT_LEAST_ONCE
    return _choice(options, "delivery", Delivery) or default


def _choice(options: Mapping[str, str], name: str, kind: type[C]) -> C | None:
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        return kind(text.strip().lower())
    except ValueError:
        choices = " or ".join(str(one.value) for one in kind)
        raise PipelineError(f"the option {name} is {choices}, and not {text!r}") from None


def _kafka(options: Mapping[str, str], delivery: Delivery) -> dict[str, str]:
    kafka = {name[len(KAFKA) :]: value for name, value in options.items() if name.startswith(KAFKA)}
    if not kafka.get("bootstrap.servers"):
        raise PipelineError("the option kafka.bootstrap.servers is missing: give one broker or more as host:port")
    for name, instead in NOT_TAKEN.items():
        if name in kafka:
            raise PipelineError(f"the option {KAFKA}{name} is not taken by a writer: {instead}")
    if delivery is Delivery.EXACTLY_ONCE and kafka.get("acks", "all").lower() not in ("all", "-1"):
        raise PipelineError(
            f"the option kafka.acks is {kafka['acks']}, and delivery is exactly-once, which needs all: "
            "leave it out, or set delivery to at-least-once"
        )
    return kafka


def _timeout_ms(options: Mapping[str, str]) -> int:
    text = options.get("transactiontimeoutms")
    if text is None:
        return TRANSACTION_TIMEOUT_MS
    try:
        timeout_ms = int(text)
    except ValueError:
        timeout_ms = 0
    if timeout_ms <= 0:
        raise PipelineError(f"the option transactionTimeoutMs is a number of milliseconds above 0, and not {text!r}")
    return timeout_ms


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name.lower(), "false").strip().lower()
    if text not in ("true", "false"):
        raise PipelineError(f"the option {name} is true or false, and not {text!r}")
    return text == "true"


def _of_checkpoint(options: Mapping[str, str]) -> str:
    location = options.get("checkpointlocation") or None
    if location is None:
        raise PipelineError(
            "exactly-once needs a name that outlives the query's process: "
            "set the option checkpointLocation on the writer, or transactionalId"
        )
    return query_name(location)


def query_name(location: str) -> str:
    """What the transactions of a query are named after: its id, which lies in its checkpoint and moves with it.

    Where the checkpoint is not on a disk of this machine its address stands for it, as Spark tells a Python sink no id
    when a transaction begins. Which batches are written is remembered by the id all the same (`memory`).
    """
    parts = urlparse(location)
    if parts.scheme in ("", "file"):
        metadata = Path(unquote(parts.path) if parts.scheme else location) / "metadata"
        if metadata.is_file():
            return sink_name(json.loads(metadata.read_text(encoding="utf-8"))["id"])
    return f"ottla-{hashlib.sha256(location.rstrip('/').encode()).hexdigest()[:32]}"
