"""Tests of pipelines from sources to sinks, on Spark."""
