"""How a model is fitted: `loop.fit` is the whole story of a run."""
