"""Tables and the files that become tables."""
