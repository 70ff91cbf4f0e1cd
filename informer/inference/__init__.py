"""What a trained model is used for: scoring it on windows, continuing tables."""
