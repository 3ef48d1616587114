"""A whole node: the composition root that puts the layers together, on any `NodeWorld`."""

from ottla.node.directories import CannotStart
from ottla.node.node import Node, build

__all__ = ["CannotStart", "Node", "build"]
