"""Scores of forecast files from any source: reading, metrics, baselines from a history, significance of differences."""
