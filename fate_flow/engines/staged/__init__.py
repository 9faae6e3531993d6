"""Workers on hosts that do not share the home: how they talk to their server."""
