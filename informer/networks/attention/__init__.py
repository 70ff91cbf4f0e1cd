"""Attention mechanisms, one per file; `conf/attn/` lists their names."""
