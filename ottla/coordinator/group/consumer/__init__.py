"""The consumer protocol (KIP-848): groups that the coordinator assigns, and whose members reconcile by heartbeats."""
