"""The v1 API for clients."""
