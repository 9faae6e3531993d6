"""The command `flow`: one module per noun."""
