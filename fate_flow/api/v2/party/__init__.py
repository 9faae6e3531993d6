"""The site, its servers, providers, grants and logs, for clients of FATE Flow 2."""
