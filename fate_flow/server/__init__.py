"""The processes of one party's server, and what they are built from."""
