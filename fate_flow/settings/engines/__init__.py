"""The sections of the engines, a module for each kind."""
