"""Training: `run.train_and_score` is a whole run, `loop.fit` its training loop."""
