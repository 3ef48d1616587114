"""Whole nodes on virtual time."""
