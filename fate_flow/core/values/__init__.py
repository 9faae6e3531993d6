"""How values are made that all packages share."""
