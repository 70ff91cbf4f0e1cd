"""Settings: declared once as pydantic classes, read from words, saved files and what Hydra composes. Without torch."""
