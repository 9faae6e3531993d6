"""The DAG scheduler of one server."""
