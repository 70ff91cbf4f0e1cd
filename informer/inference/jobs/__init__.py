"""Forecasts of many files: reading, batching, engines, writing, summary."""
