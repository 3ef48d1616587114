"""A topology as text, in the manner of Kafka Streams' description: sub-topologies, who reads whom, which stores."""

from __future__ import annotations

from ottla.pipelines.streams.function_text import said
from ottla.pipelines.streams.graph import GlobalSource, Node, Sink, Source, Topology


def describe(topology: Topology) -> str:
    """The whole description. A sub-topology is what hangs together; a global store stands for itself."""
    lines = ["Topologies:"]
    for number, names in enumerate(subtopologies(topology)):
        nodes = [topology.nodes[name] for name in names]
        about_global = len(nodes) == 1 and isinstance(nodes[0].work, GlobalSource)
        lines.append(
            f"   Sub-topology: {number}" + (" for global store (will not generate tasks)" if about_global else "")
        )
        for node in nodes:
            lines += _node(topology, node)
        lines.append("")
    return "\n".join(lines)


def subtopologies(topology: Topology) -> list[list[str]]:
    """The connected parts of the graph, in the order of their first node."""
    group = {name: index for index, name in enumerate(topology.nodes)}
    for node in topology.nodes.values():
        for parent in node.parents:
            old, new = sorted((group[node.name], group[parent]), reverse=True)
            group = {name: new if number == old else number for name, number in group.items()}
    return [[name for name in topology.nodes if group[name] == number] for number in dict.fromkeys(group.values())]


def _node(topology: Topology, node: Node) -> list[str]:
    readers = ", ".join(child.name for child in topology.children(node.name)) or "none"
    parents = ", ".join(node.parents) or "none"
    match node.work:
        case Source(topics=topics, pattern=pattern):
            read = f"[{', '.join(topics)}]" if pattern is None else pattern
            return [f"    Source: {node.name} (topics: {read})", f"      --> {readers}"]
        case GlobalSource(topic=topic, store=store):
            return [f"    Source: {node.name} (topics: [{topic}], stores: [{store}])", f"      --> {readers}"]
        case Sink(topic=topic, extractor=extractor):
            where = f"topic: {topic}" if extractor is None else f"extractor: {said(extractor) or 'a function'}"
            return [f"    Sink: {node.name} ({where})", f"      <-- {parents}"]
    stores = ", ".join(node.stores)
    return [f"    Processor: {node.name} (stores: [{stores}])", f"      --> {readers}", f"      <-- {parents}"]
