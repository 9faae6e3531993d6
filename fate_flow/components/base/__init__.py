"""What all components need: errors, messages to other parties, log files."""
