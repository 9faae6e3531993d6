"""What the built-in tasks do, inside a worker; knows the task's configuration, never the server."""
