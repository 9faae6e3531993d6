"""What all routes share: how a body is read, who asks, how an answer is written."""
