"""The commands about the record that go through a server, and the options of all that read it."""
