"""Forecasts from origins throughout a series, compared with the actual values."""
