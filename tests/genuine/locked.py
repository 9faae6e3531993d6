"""A server that wants signed requests."""

APP_KEY, SECRET, ANOTHER_SECRET = "our-clients", "secret-of-9999", "another-secret"
KEYS = ("--app-key", APP_KEY, "--secret-key", SECRET)
WRONG = ("--app-key", APP_KEY, "--secret-key", ANOTHER_SECRET)
OPEN_CONF = {"authentication": {"client": {"switch": False}}}
CONF = {"authentication": {"client": {"switch": True, "http_app_key": APP_KEY, "http_secret_key": SECRET}}}
