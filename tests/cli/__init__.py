"""The everyday tools against a broker, beside the real ones."""
