"""The built-in components of federated computation."""
