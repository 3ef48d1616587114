"""An admin without a broker, for users' unit tests."""

from ottla.client.admin.fake.admin import AsyncFakeAdmin, FakeAdmin
from ottla.client.admin.fake.cluster import FakeCluster
from ottla.client.admin.fake.state import FakeGroup, FakeMember, FakePartition, FakeTopic

__all__ = ["AsyncFakeAdmin", "FakeAdmin", "FakeCluster", "FakeGroup", "FakeMember", "FakePartition", "FakeTopic"]
