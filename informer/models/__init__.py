"""Networks: one family a file, behind the protocol of `base`."""
