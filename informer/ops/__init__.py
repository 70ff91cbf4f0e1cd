"""Fast versions of plain torch expressions; each documents the expression it equals and is tested against it."""
