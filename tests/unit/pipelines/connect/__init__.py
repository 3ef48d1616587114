"""Tests of pipeline files, without Spark."""
