"""The use cases behind the HTTP endpoints."""
