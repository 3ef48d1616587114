"""Tests of `ottla.client.columnar`."""
