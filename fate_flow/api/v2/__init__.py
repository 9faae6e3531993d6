"""The API of FATE Flow 2 for clients: its envelope, its way to read arguments, and its routes."""
