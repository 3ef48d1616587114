"""Unit tests of `ottla.testing`."""
