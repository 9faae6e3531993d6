"""The command `flow`: one module a noun."""
