"""Ottla: Apache Kafka rebuilt in Python. The layers are in ARCHITECTURE.md."""

__version__ = "0.1.0.dev0"
