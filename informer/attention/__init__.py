"""Attention mechanisms, one file each; the folder is the registry (see `conf/attn/` for the names)."""
