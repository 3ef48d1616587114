"""Bad input against the running process: others are served meanwhile, memory is bounded, the log stays short."""
