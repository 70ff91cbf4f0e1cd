"""Parts of the networks other than attention mechanisms."""
