"""The genuine FATE client, unmodified and in a process of its own, against real servers (bin/test fetches it)."""
