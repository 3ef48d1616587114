"""Ottla and a real Kafka as processes, a client in a process of its own, and the bare loops that show the limit.

`duel` runs them side by side; `bench_broker` makes rows of what it found.
"""
