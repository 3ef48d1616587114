"""The log on disk, with the bytes Kafka writes: segments, indexes, producer state, checkpoints, recovery, compaction."""
