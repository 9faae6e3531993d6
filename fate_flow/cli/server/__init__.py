"""The command `fate_flow`, and how servers are started."""
