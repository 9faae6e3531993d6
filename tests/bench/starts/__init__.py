"""(18) What it takes until a command or a server answers."""
