"""The logs of a page: where their lines come from, and what tells a browser that there are more."""
