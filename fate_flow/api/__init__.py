"""Flask: one blueprint per kind of caller, the envelope, the errors."""
