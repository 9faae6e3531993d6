"""FATE Flow 2's API, which this server does not have: its envelope, and a refusal of every path."""
