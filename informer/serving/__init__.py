"""Forecasts over HTTP: requests, batches, answers; the only room that imports FastAPI."""
