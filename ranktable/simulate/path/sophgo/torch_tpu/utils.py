"""``torch_tpu.utils``: tools for people at a machine, so there is nothing here."""
