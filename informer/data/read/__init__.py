"""From a file or a table to a checked series."""
