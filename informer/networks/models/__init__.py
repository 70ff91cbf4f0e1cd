"""Model families, one per file, with the interface of `base`."""
