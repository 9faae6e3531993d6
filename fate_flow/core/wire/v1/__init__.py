"""The protocol of FATE Flow 1.x between parties (party-api-v1), with our extensions; nothing here does I/O."""
