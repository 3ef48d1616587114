"""Stock clients and Kafka's own tools against a running broker: what they cannot tell from Kafka."""
