"""Which decoder shows a record's content: one for each of Kafka's own topics, and the classes for all others.

Each is loaded when it is chosen: the coordinators' records alone are fifty message types.
"""

from __future__ import annotations

from ottla.cli.dump.options import ContentDecoder


def record_decoder(topic: str | None, key_class: str, value_class: str) -> ContentDecoder:
    """The decoder of one of Kafka's topics, or of the named classes; `ValueError` for a class that is not supported."""
    match topic:
        case "offsets" | "transactions" | "share-state":
            from ottla.cli.dump.coordinator_decoder import coordinator_decoder
            from ottla.wire.coordinator import GROUP, SHARE, TRANSACTION

            records = {"offsets": GROUP, "transactions": TRANSACTION, "share-state": SHARE}[topic]
            return coordinator_decoder(records)
        case "metadata":
            from ottla.cli.dump.metadata_decoder import decode_metadata

            return decode_metadata
        case "remote-log":
            from ottla.cli.dump.remote_log_decoder import decode_remote_log

            return decode_remote_log
        case _:
            from ottla.cli.dump.class_decoder import class_decoder

            return class_decoder(key_class, value_class)
