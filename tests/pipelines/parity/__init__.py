"""Ottla's pipelines beside Spark's own connector and Kafka Streams: the same input, the same result."""
