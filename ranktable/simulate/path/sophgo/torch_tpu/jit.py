"""``torch_tpu.jit``: compiles for a chip, so there is nothing here."""
