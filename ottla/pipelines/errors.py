"""What can go wrong in a pipeline, beside what Kafka and Spark say themselves."""

from __future__ import annotations


class PipelineError(Exception):
    """A pipeline that cannot be built or cannot go on; the message says why, and what to do."""


class MissingDependency(PipelineError):
    """A part that has to be installed first."""
