"""Clusters of real processes: what is promised stays true while nodes die, stand still, end and return."""
