"""The commands of people about their notifications."""
