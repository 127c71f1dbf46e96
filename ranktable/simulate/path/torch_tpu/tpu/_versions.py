"""Versions of torch_tpu. The vendor's build writes them; here nothing was built."""

TPU_TRAIN_VERSION = None
BACKEND_VERSION = None
