"""The sockets on which a server listens, and the listener for workers on other hosts."""
