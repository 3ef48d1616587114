"""Whether the brokers of a pipeline answer, before Spark is started for it.

Promises: brokers that cannot be reached are told within `CONTACT_S`, with the line in the file that names them. Called
by `runner`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ottla.client.quiet import quiet_client
from ottla.pipelines.connect.errors import SpecError

if TYPE_CHECKING:
    from ottla.pipelines.connect.spec import Pipeline
    from ottla.pipelines.connect.yaml_file import Path as Place

CONTACT_S = 10
SECURITY = ("security.", "sasl.", "ssl.", "client.dns.lookup")
"""The settings that a first contact needs; the others are of a consumer or a producer."""


def require_brokers(pipeline: Pipeline) -> None:
    """`SpecError` when the brokers of a source, a sink or the dead letters do not answer."""
    clusters: dict[str, tuple[Place, dict[str, str]]] = {}
    for place, servers, settings in _clusters(pipeline):
        clusters.setdefault(servers, (place, settings))
    if not clusters:
        return
    with quiet_client(), ThreadPoolExecutor(len(clusters)) as pool:
        troubles = pool.map(lambda servers: _trouble(servers, clusters[servers][1]), clusters)
        wrong = [
            pipeline.wrong(place, trouble)
            for (place, _), trouble in zip(clusters.values(), troubles, strict=True)
            if trouble is not None
        ]
    if wrong:
        raise SpecError([problem for error in wrong for problem in error.problems])


def _clusters(pipeline: Pipeline) -> list[tuple[Place, str, dict[str, str]]]:
    """Where the file names brokers, which, and how to speak to them."""
    found: list[tuple[Place, str, dict[str, str]]] = []
    for place, part in pipeline.placed_parts():
        if part.kind == "topic":
            settings = {name.removeprefix("kafka."): value for name, value in part.passed("kafka.").items()}
            found.append(((*place, "bootstrap.servers"), part.options["bootstrap.servers"], settings))
    if pipeline.dead_letter is not None:
        found.append((("dead-letter", "bootstrap.servers"), pipeline.dead_letter.servers, {}))
    return found


def _trouble(servers: str, settings: dict[str, str]) -> str | None:
    """Why nobody answers; None when somebody does."""
    from ottla.client import Admin
    from ottla.client.config import FIRST_CONTACT
    from ottla.client.errors import BootstrapFailed, KafkaTimeout
    from ottla.errors import KafkaError, NetworkException

    chosen = {name: value for name, value in settings.items() if name.startswith(SECURITY)}
    limit = {"default.api.timeout.ms": CONTACT_S * 1000, "request.timeout.ms": CONTACT_S * 1000}
    try:
        with Admin({**FIRST_CONTACT, **chosen, **limit, "bootstrap.servers": servers}) as admin:
            admin.describe_cluster()
    except (BootstrapFailed, KafkaTimeout, NetworkException) as error:
        return f"{error}: start the brokers, or correct bootstrap.servers"
    except KafkaError:
        pass  # a broker that refuses an admin's question is there, and tells the pipeline what it thinks of it
    return None
