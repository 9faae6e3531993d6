"""How notifications get to people: webhooks, and mail."""
