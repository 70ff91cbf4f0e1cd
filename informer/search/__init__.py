"""Lengths, sizes and rates for data that nobody has trained on yet: chosen on their validation part within minutes."""
