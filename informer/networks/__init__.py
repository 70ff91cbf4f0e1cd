"""Networks and their parts; mathematics only, of the package they import nothing but settings."""
