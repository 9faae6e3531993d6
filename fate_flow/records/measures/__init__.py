"""The counts of a server's processes, kept in files that a scrape adds up."""
