"""Curves, pictures and progress of a run, and where they are written."""
