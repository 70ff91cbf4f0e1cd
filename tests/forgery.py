"""Model files changed on purpose, with a matching digest."""

from entry_points import script

content_of = script("fuzz_files").read_model
"""Header and tensors of a model file, without its digest."""

write_forged = script("fuzz_files").write_model
"""Write a model file with this content and its digest, which is noted in the run that the file is of, too."""
