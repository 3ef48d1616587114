"""The command line: one command a module, imported only when it is asked for."""
