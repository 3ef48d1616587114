"""What a metadata log asks for and Ottla does not do yet, as a Kafka may have left it.

A node opens such a log and keeps every record, so that the directory can go back to Kafka. But it serves everyone in
spite of them, and says so when it starts. Called by `node`, which logs the lines.
"""

from __future__ import annotations

from ottla.config import FIXED_AT_START, is_unserved
from ottla.metadata import BROKER, Image
from ottla.server import CREATION_RATE


def unenforced_metadata(image: Image, node_id: int) -> list[str]:
    """What an operator must know about the records of this image; nothing for a log that Ottla began."""
    lines = []
    counts = {
        "ACLs": len(image.access_rules),
        "SCRAM credentials": len(image.scram_credentials),
        "delegation tokens": len(image.delegation_tokens),
        "client quotas": sum(key != CREATION_RATE for quotas in image.quotas.values() for key in quotas),
    }
    found = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    if found:
        lines.append(f"The metadata log holds {found}. Ottla keeps them, but serves everyone in spite of them")
    settings = {**image.config_of(BROKER, ""), **image.config_of(BROKER, str(node_id))}
    unserved = sorted(name for name, value in settings.items() if is_unserved(name, value))
    if unserved:
        lines.append(
            f"The metadata log holds settings that Ottla does not enforce yet: {', '.join(unserved)}. Ottla keeps "
            "them, but serves everyone in spite of them"
        )
    fixed = sorted(FIXED_AT_START.intersection(settings))
    if fixed:
        lines.append(f"Ottla takes {', '.join(fixed)} from its file, and not from the metadata log")
    return lines
