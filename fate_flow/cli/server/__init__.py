"""The command `fate_flow`; start and stop servers."""
