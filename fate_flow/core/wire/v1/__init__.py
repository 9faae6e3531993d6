"""The protocol of FATE Flow 1.x between parties (party-api-v1), with our extensions, without any I/O."""
