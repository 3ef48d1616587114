"""What survives: restarts, kills, and the change from one broker to the other on one directory."""
