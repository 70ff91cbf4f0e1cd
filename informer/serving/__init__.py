"""Forecasts over HTTP: requests, batches, responses; the only package that imports FastAPI."""
