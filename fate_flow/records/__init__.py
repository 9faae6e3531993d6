"""Records of what happened, for people."""
