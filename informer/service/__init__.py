"""A trained model in use: forecasts over HTTP, updates with later rows, monitoring."""
