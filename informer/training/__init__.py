"""Training: `loop.fit` is the whole run."""
