"""Upload, download, write, show and delete tables."""
