"""Using a trained model: scoring it on windows, forecasting tables."""
