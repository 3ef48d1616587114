"""`ottla.testing` from outside: clusters, stock clients inside, and what is left afterwards."""
