"""What was asked for on the command line, once for all files of a run.

Imports nothing that reads logs: the command line needs the defaults before it knows whether there is anything to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ottla.cli.dump.java_text import Json

ContentDecoder: TypeAlias = "Callable[[int, bytes | None, bytes | None], Mapping[str, Json]]"
"""From a record's offset, key and value, what is shown as its `key` and `payload`; `Undecodable` when it cannot."""

MAX_MESSAGE_SIZE = 5 * 1024 * 1024
INT_MAX = 2**31 - 1
"""Kafka's tool takes its largest int for "no limit"."""
STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"
"""What keys and values are taken for unless told otherwise."""


class Undecodable(Exception):
    """A record's content is not what the chosen decoder reads."""


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """`decoder` is None unless contents are to be shown."""

    is_deep: bool = False
    decoder: ContentDecoder | None = None
    skip_record_metadata: bool = False
    max_bytes: int = INT_MAX
    max_message_size: int = MAX_MESSAGE_SIZE
    verify_index_only: bool = False
    index_sanity_check: bool = False
