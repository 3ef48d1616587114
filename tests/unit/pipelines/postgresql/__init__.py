"""Tests of `ottla.pipelines.postgresql`."""
