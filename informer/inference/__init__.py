"""Inference with a trained model: forecasts of tables and files, scores on windows, intervals, export."""
