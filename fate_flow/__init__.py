"""A federated multi-party job coordinator: one server per party, one job across all of them."""

__version__ = "0.1.0"
