"""What tests share: golden data, Kafka's own jars, temporary worlds."""
