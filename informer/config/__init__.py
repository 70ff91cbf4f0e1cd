"""Typed configuration: schema, composition by Hydra, and conversion to other forms. Nothing here imports torch."""
