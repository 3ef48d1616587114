"""What the controller knows and how it decides: one module a noun, each with its checks and its replay.

A `*Control` holds state that can be taken back, changed by its `replay` methods only; what it decides it returns as
records. `ottla.metadata.controller` wires them together.
"""
