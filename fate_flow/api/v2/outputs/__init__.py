"""What tasks leave, for clients of FATE Flow 2."""
