"""`model=auto`: choose the lookback window, the model and its settings on validation data, within a time budget."""
