"""Shape types are checked while tests run: every jaxtyping annotation of the package becomes a runtime check."""

from jaxtyping import install_import_hook

install_import_hook("informer", "beartype.beartype")
