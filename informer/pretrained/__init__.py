"""Networks that come trained."""
