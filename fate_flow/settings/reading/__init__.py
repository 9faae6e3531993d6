"""Reading a mapping of the configuration key by key."""
