"""Handlers of a controller's listeners."""
