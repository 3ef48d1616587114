"""What three nodes show of themselves while one of them dies and comes back: the values, under Kafka's names."""

from __future__ import annotations

from ottla.node import Node
from ottla.server.gauges import publish_gauges
from tests.unit.node.trio import Trio

CONTROLLER = "kafka_controller_kafkacontroller"
REPLICAS = "kafka_server_replicamanager"
RAFT = "kafka_server_raft_metrics"


class Cluster(Trio):
    """What each node shows is read from its page."""

    def __init__(self) -> None:
        super().__init__()
        self._published: list[Node] = []

    def page(self, node: Node) -> dict[str, float]:
        if node not in self._published:
            self._published.append(node)
            publish_gauges(node.context, node.broker if node.broker_role else None, node.collect_gauges)
        lines = node.context.metrics.exposition().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}

    def sum_of(self, name: str) -> float:
        """Over all brokers that run."""
        return sum(self.page(one.node)[name] for one in self.running if one.node is not None)


def test_a_cluster_tells_what_became_of_its_replicas() -> None:
    with Cluster() as cluster:
        cluster.create("copied", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        cluster.create("alone", [[1], [2], [3]])
        controller_id = cluster.controller.config.node_id
        check_whole(cluster, controller_id)
        victim = next(node_id for node_id in (1, 2, 3) if node_id != controller_id)
        cluster.nodes.kill(f"node{victim}")
        cluster.pass_seconds(15)
        check_without_one(cluster)
        cluster.run(cluster.nodes.start(f"node{victim}"))
        cluster.pass_seconds(5)
        check_returned(cluster)


def check_whole(cluster: Cluster, controller_id: int) -> None:
    for node_id in (1, 2, 3):
        page = cluster.page(cluster.node(node_id))
        assert page[f"{CONTROLLER}_activecontrollercount"] == (node_id == controller_id)
        assert page[f"{RAFT}_current_leader"] == controller_id
        assert page[f"{RAFT}_current_vote"] in (1, 2, 3, -1)
        assert page[f"{RAFT}_current_epoch"] == page[f"{RAFT}_log_end_epoch"] >= 1
        assert page[f"{RAFT}_number_of_voters"] == 3
        assert page[f"{RAFT}_high_watermark"] <= page[f"{RAFT}_log_end_offset"]
        assert (f"{RAFT}_number_of_observers" in page) is (node_id == controller_id), "only a leader knows"
        # An idle cluster writes a record every half second, so nobody is much further behind than that.
        assert page["kafka_server_broker_metadata_metrics_last_applied_record_lag_ms"] < 1_500
        assert page[f"{CONTROLLER}_lastappliedrecordlagms"] < 1_500
        assert (page[f"{CONTROLLER}_lastappliedrecordlagms"] == 0) is (node_id == controller_id)
        # Standbys know the metadata too.
        assert page[f"{CONTROLLER}_activebrokercount"] == 3
        assert page[f"{CONTROLLER}_fencedbrokercount"] == 0
        assert page[f"{CONTROLLER}_offlinepartitionscount"] == 0
        assert page[f"{CONTROLLER}_preferredreplicaimbalancecount"] == 0
        assert page[f"{CONTROLLER}_globalpartitioncount"] == 6
        assert page[f"{REPLICAS}_partitioncount"] == 4
        assert page[f"{REPLICAS}_leadercount"] == 2
        assert page["kafka_server_assignmentsmanager_queuedreplicatodirassignments"] == 0
        assert page['kafka_server_replicafetchermanager_maxlag{clientId="Replica"}'] == 0
    for name in ("underreplicatedpartitions", "underminisrpartitioncount", "offlinereplicacount"):
        assert cluster.sum_of(f"{REPLICAS}_{name}") == 0
    assert cluster.sum_of(f"{REPLICAS}_atminisrpartitioncount") == 3, "a lone replica is always at its minimum of one"
    leader = cluster.page(cluster.node(controller_id))
    assert 0 < leader[f"{RAFT}_commit_latency_avg"] <= leader[f"{RAFT}_commit_latency_max"] < 1_000


def check_without_one(cluster: Cluster) -> None:
    page = cluster.page(cluster.controller)
    assert page[f"{CONTROLLER}_activebrokercount"] == 2
    assert page[f"{CONTROLLER}_fencedbrokercount"] == 1
    assert page[f"{CONTROLLER}_offlinepartitionscount"] == 1, "the lone replica that was there"
    # The partition that it led has another leader; the lone one has none, and is not led by its first replica either.
    assert page[f"{CONTROLLER}_preferredreplicaimbalancecount"] == 2
    assert cluster.sum_of(f"{REPLICAS}_underreplicatedpartitions") == 3
    assert cluster.sum_of(f"{REPLICAS}_atminisrpartitioncount") == 3 + 2
    assert cluster.sum_of(f"{REPLICAS}_underminisrpartitioncount") == 0
    assert cluster.sum_of(f"{REPLICAS}_leadercount") == 5
    assert page["kafka_controller_controllerstats_uncleanleaderelections_total"] == 0
    assert page["kafka_controller_controllerstats_electionfromeligibleleaderreplicas_total"] == 0


def check_returned(cluster: Cluster) -> None:
    page = cluster.page(cluster.controller)
    assert page[f"{CONTROLLER}_activebrokercount"] == 3
    assert page[f"{CONTROLLER}_fencedbrokercount"] == 0
    assert page[f"{CONTROLLER}_offlinepartitionscount"] == 0
    assert page[f"{CONTROLLER}_preferredreplicaimbalancecount"] == 1, "until the leaders are balanced"
    assert cluster.sum_of(f"{REPLICAS}_underreplicatedpartitions") == 0
    assert cluster.sum_of(f"{REPLICAS}_isrexpands_total") == 3
    assert cluster.sum_of(f"{REPLICAS}_failedisrupdates_total") == 0
    assert cluster.sum_of(f"{CONTROLLER}_timedoutbrokerheartbeatcount") == 0
