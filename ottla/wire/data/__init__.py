"""Messages that travel or lie inside others: control records, group protocols, principals, the quorum state."""
