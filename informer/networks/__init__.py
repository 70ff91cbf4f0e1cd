"""Networks and their parts, on torch alone. Of the package, families import the classes of their settings."""
