"""The log files that operators read."""
