"""Queryable state on a real broker: what is answered is what was committed."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client import Admin, NewTopic, Producer
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams import Running, StreamsBuilder
from ottla.pipelines.streams import json as of_schema
from ottla.pipelines.streams.queryable import QueryableStore, StateServer, open_store
from ottla.pipelines.streams.stores import StoreKey, StoreKind, StoreSpec, changelog_topic, ensure_changelogs, serde
from ottla.pipelines.streams.stores.layout import write_key
from ottla.testing import Cluster
from tests.support.clients import eventually

COUNTS = StoreSpec(name="counts", value=serde("long"))
HOURS = StoreSpec(name="hours", kind=StoreKind.WINDOW, value=serde("long"), window_ms=3_600_000, retention_ms=7_200_000)
VISITS = StoreSpec(name="visits", kind=StoreKind.SESSION, value=serde("json"))
PAGES = StoreSpec(name="pages", kind=StoreKind.MAP, value=serde("json"), key=serde("long"))
SPECS = (COUNTS, HOURS, VISITS, PAGES)
HOUR_MS = 3_600_000


@pytest.fixture
def application(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A name of the test's own, with changelogs of three partitions."""
    name: str = request.node.name.replace("[", "-").rstrip("]")[:80]
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        ensure_changelogs(admin, name, SPECS, partitions=3)
    return name


@pytest.fixture
def producer(cluster: Cluster, application: str) -> Iterator[Producer]:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=application) as one:
        one.init_transactions()
        yield one


def put(producer: Producer, application: str, spec: StoreSpec, key: StoreKey, value: Any) -> None:
    producer.send(
        changelog_topic(application, spec.name),
        None if value is None else spec.value.encode(value),
        key=write_key(spec.kind, key),
    )


def count(producer: Producer, application: str, **counts: int | None) -> None:
    for word, number in counts.items():
        put(producer, application, COUNTS, StoreKey(word.encode()), number)


def words(store: QueryableStore, **how: bool) -> dict[str, int]:
    return {entry.key: entry.value for entry in store.all(**how)}


def test_an_answer_is_what_was_committed_before_the_question(
    cluster: Cluster, application: str, producer: Producer
) -> None:
    with open_store(cluster.bootstrap_servers, application, COUNTS) as store:
        assert words(store) == {}
        producer.begin_transaction()
        count(producer, application, hello=1, world=1)
        producer.flush()
        assert words(store) == {}, "still being written"
        producer.commit_transaction()
        assert words(store) == {"hello": 1, "world": 1}

        producer.begin_transaction()
        count(producer, application, hello=99, other=99)
        producer.flush()
        producer.abort_transaction()
        assert words(store) == {"hello": 1, "world": 1}, "given up"

        producer.begin_transaction()
        count(producer, application, hello=2, world=None, zebra=1)
        producer.commit_transaction()
        assert words(store, stale=True) == {"hello": 1, "world": 1}
        assert (store.get("hello"), store.get("world"), store.get("hello", stale=True)) == (2, None, 2)
        assert [entry.key for entry in store.range("i", "zebra")] == ["zebra"]
        assert [entry.key for entry in store.range(last="i")] == ["hello"]
        with pytest.raises(PipelineError, match="has no windows"):
            store.fetch("hello")


def test_a_file_goes_on_where_it_was_and_is_read_anew_when_the_topic_is_another(
    cluster: Cluster, application: str, producer: Producer, tmp_path: Path
) -> None:
    producer.begin_transaction()
    count(producer, application, a=1, b=2, c=3)
    producer.commit_transaction()
    with open_store(cluster.bootstrap_servers, application, COUNTS, directory=tmp_path) as store:
        assert words(store) == {"a": 1, "b": 2, "c": 3}
    topic = changelog_topic(application, "counts")
    with open_store(cluster.bootstrap_servers, application, COUNTS, directory=tmp_path) as store:
        assert words(store, stale=True) == {"a": 1, "b": 2, "c": 3}, "before anything was read"
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.delete_topics([topic]).all()
            ensure_changelogs(admin, application, [COUNTS], partitions=3)
        eventually(lambda: words(store) == {}, "the new topic is empty")
        producer.begin_transaction()
        count(producer, application, e=5)
        producer.commit_transaction()
        assert words(store) == {"e": 5}
    with open_store(cluster.bootstrap_servers, application, COUNTS, directory=tmp_path) as store:
        assert words(store, stale=True) == {"e": 5}


def test_stores_are_asked_over_http(cluster: Cluster, application: str, producer: Producer) -> None:
    producer.begin_transaction()
    count(producer, application, **{f"w{number:02}": number for number in range(25)})
    for hour in range(4):
        put(producer, application, HOURS, StoreKey(b"a/b", hour * HOUR_MS), hour)
    put(producer, application, VISITS, StoreKey(b"anna", 10, 20), {"pages": ["/"]})
    put(producer, application, PAGES, StoreKey(serde("long").encode(7), inner=b"/shop"), [1, 2])
    producer.commit_transaction()
    stores = {spec.name: open_store(cluster.bootstrap_servers, application, spec) for spec in SPECS}
    with StateServer(stores) as server:

        def ask(path: str) -> Any:
            try:
                with urllib.request.urlopen(f"{server.address}{path}", timeout=30) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, json.load(error)["error"]

        assert [one["name"] for one in ask("/stores")["stores"]] == ["counts", "hours", "visits", "pages"]
        assert ask("/stores/counts")["entries"] == 25
        assert ask("/stores/counts/keys/w07")["value"] == 7
        assert ask("/stores/counts/keys/nobody") == (404, "store counts has no such key")
        assert ask("/stores/nothing") == (404, "there is no store nothing; there are counts, hours, visits, pages")
        assert [one["key"] for one in ask("/stores/counts/keys?from=w03&to=w05")["entries"]] == ["w03", "w04", "w05"]

        gathered, after = [], ""
        while True:
            page = ask(f"/stores/counts/keys?limit=10{after}")
            gathered += [one["value"] for one in page["entries"]]
            if "next" not in page:
                break
            after = f"&after={page['next']}"
        assert gathered == list(range(25))

        windows = ask("/stores/hours/windows/a%2Fb?from_ms=0")["entries"]
        assert [(one["start_ms"], one["value"]) for one in windows] == [(2 * HOUR_MS, 2), (3 * HOUR_MS, 3)], (
            "windows older than the retention are forgotten"
        )
        assert windows[0]["end_ms"] == 3 * HOUR_MS
        assert ask(f"/stores/hours/windows?from_ms={3 * HOUR_MS}")["entries"][0]["key"] == "a/b"
        assert ask("/stores/hours/keys/a%2Fb")[0] == 400
        assert ask("/stores/visits/windows/anna?from_ms=15&to_ms=15")["entries"][0]["value"] == {"pages": ["/"]}
        assert ask("/stores/visits/windows/anna?from_ms=21")["entries"] == []
        assert ask("/stores/pages/keys/7?map_key=/shop")["value"] == [1, 2]
        assert ask("/stores/pages/windows/7")["entries"][0]["map_key"] == "/shop"
        assert ask("/stores/pages/keys/seven")[0] == 400
        assert ask("/stores/counts/keys?limit=0") == (400, "limit must be from 1 to 10000")
        assert ask("/stores/counts/keys?after=nonsense")[0] == 400
        assert ask("/elsewhere") == (404, "begin at /stores")
    for store in stores.values():
        store.close()


def test_a_changelog_that_would_lose_state_is_refused(cluster: Cluster, application: str) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        assert ensure_changelogs(admin, application, SPECS, partitions=7)["counts"] == f"{application}-counts-changelog"
        admin.create_topics(
            [
                NewTopic(changelog_topic(application, "plain"), 1, 1),
                NewTopic(
                    changelog_topic(application, "short"),
                    1,
                    1,
                    configs={"cleanup.policy": "compact,delete", "retention.ms": "1000"},
                ),
            ]
        ).all()
        with pytest.raises(PipelineError, match=r"cleanup.policy=delete and would lose .* set cleanup.policy=compact"):
            ensure_changelogs(admin, application, [StoreSpec(name="plain")], partitions=1)
        with pytest.raises(PipelineError, match="deletes records after 1000 ms, sooner than store short"):
            ensure_changelogs(admin, application, [StoreSpec(name="short")], partitions=1)
    with pytest.raises(PipelineError, match="has not been written yet"):
        open_store(cluster.bootstrap_servers, application, StoreSpec(name="missing"))


def test_a_named_table_of_a_topic_is_asked_in_the_topic_itself(cluster: Cluster) -> None:
    """As in Kafka Streams, where such a table's topic is its changelog; records without keys are no rows."""
    builder = StreamsBuilder()
    people = builder.table(cluster.create_topic("named.people", partitions=2), value=of_schema("name STRING"), name="p")
    builder.stream("in").join(people, "right.name").to("out")
    builder.global_table(cluster.create_topic("named.rates"), value="double")
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for key, value in (("ada", b'{"name": "Ada"}'), ("bob", b'{"name": "Bob"}'), (None, b"{}"), ("bob", None)):
            producer.send("named.people", value, key=key and key.encode())
        producer.send("named.rates", serde("double").encode(1.5), key=b"eur")
    running = Running(builder.build("named"), cluster.bootstrap_servers, {}, {})
    with running.store("p") as store:
        assert [(entry.key, entry.value) for entry in store.all()] == [("ada", {"name": "Ada"})]
    with running.store("named.rates-STATE-STORE") as rates:
        assert rates.get("eur") == 1.5
    with pytest.raises(PipelineError, match=r"has no named store q: it has named.rates-STATE-STORE, p"):
        running.store("q")
