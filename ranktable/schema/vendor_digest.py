"""Whether HCCL takes the tables of two processes for the same one."""

from __future__ import annotations

import hashlib
import json

_PARSED = ("hccl-1.0", "hccl-1.1", "hccl-1.2", "hccl-lab", "hccl-cloud")
_AS_BYTES = ("hccl-2.0",)


def hccl_digest(format_name: str, data: bytes) -> str | None:
    """Return the SHA-256 of what HCCL compares, None where it reads no such table.

    Version 1.x: the parsed text, with sorted keys and without blanks. Version 2.0: the
    bytes of the file, so that an indent differs. HCCL itself compares a checksum of
    the same text.

    Source: HCCL's rank consistency checker, and ``rank_table_crc_bridge.cc``.
    """
    if format_name in _AS_BYTES:
        return hashlib.sha256(data).hexdigest()
    if format_name not in _PARSED:
        return None
    parsed = json.loads(data.decode("utf-8-sig"))
    text = json.dumps(parsed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
