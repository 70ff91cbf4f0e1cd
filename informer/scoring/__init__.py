"""Scores of forecast files from any source: metrics, baselines computed from a history, significance of differences."""
