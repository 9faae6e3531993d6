"""The log files that operators of FATE Flow read."""
