"""Read files and tables as checked series."""
