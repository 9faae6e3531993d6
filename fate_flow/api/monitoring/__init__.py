"""What the monitoring of an operator asks a server: whether it lives and is ready, and its metrics."""
