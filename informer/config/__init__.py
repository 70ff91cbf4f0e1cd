"""Typed configuration: its schema, composition by Hydra, and other forms. Nothing here imports torch."""
