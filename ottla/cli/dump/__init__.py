"""What `ottla dump-log` prints: one module a kind of file, each turning the file into rows.

A row is a set of named values (`row`). Its text is, letter for letter, what Kafka's `kafka-dump-log` prints, and
`tests/unit/cli/test_dump_log.py` holds that against the real tool's output. Nothing here writes to a log directory.
"""
