"""Groups and transactions with stock clients. `OTTLA_TESTS_AGAINST=kafka pytest tests/clients/groups` asks a real one.

Whatever is claimed here holds for Kafka too: run against it when a scenario is new, or when Ottla fails one.
"""
