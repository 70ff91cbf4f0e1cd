"""Fast versions of plain torch expressions; each documents the expression it computes and is tested against it."""
