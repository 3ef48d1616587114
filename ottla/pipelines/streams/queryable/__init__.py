"""Queryable state: what a store holds, by key, range and window, in Python and over HTTP.

It is read from the store's changelog topic under `read_committed`, so what is answered is what was committed: nothing
of a batch that is still being written or was given up, and after a crash the same as before it. Any process that
reaches the brokers can ask; the one that runs the query need not even be up.
"""

from ottla.pipelines.streams.queryable.http_server import StateServer as StateServer
from ottla.pipelines.streams.queryable.store import Entry as Entry
from ottla.pipelines.streams.queryable.store import QueryableStore as QueryableStore
from ottla.pipelines.streams.queryable.store import open_store as open_store

__all__ = ["Entry", "QueryableStore", "StateServer", "open_store"]
