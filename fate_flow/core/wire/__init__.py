"""What servers of different parties write and read, one folder for each version of the protocol."""
