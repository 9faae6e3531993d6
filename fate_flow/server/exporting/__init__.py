"""What is recorded, sent to programs that collect logs."""
