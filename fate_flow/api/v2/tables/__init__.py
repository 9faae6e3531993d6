"""Upload, download, show and delete tables, for clients of FATE Flow 2."""
