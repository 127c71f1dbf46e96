"""The options of a check."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ranktable.schema.files import DEFAULT_MAX_SIZE_BYTES
from ranktable.schema.table_readers import SCCL_FORMATS

if TYPE_CHECKING:
    from ranktable.schema.declare import Format
    from ranktable.schema.table_readers import TableReader
    from ranktable.schema.topology import Topology


class Options(NamedTuple):
    """Options of a check.

    Attributes:
        chips_per_node: Number of chips of every host, None if it is not known.
        npu: Ascend's generation of the chips, such as ``A2``, None if it is not known.
        topology: Links between the chips of every host, None if they are not known.
        tp: Size of the tensor parallel groups, None if it is not known.
        format: Format the file must have, None to detect it.
        reader: The program that will read the file, None if it is not known.
        vendor: Maker of the chips of the job, as ``probe`` names it, None if unknown.
        max_size_bytes: Largest file to read.
        limit: Most diagnostics of each code and severity to locate and show, None for
            all.
        job_size: Ranks and nodes of the table with which submitted jobs are compared.
        is_table_wanted: Whether only the table is needed. If it has no errors, other
            findings are left out, because it takes long to locate them in a large file.
    """

    chips_per_node: int | None = None
    npu: str | None = None
    topology: Topology | None = None
    tp: int | None = None
    format: Format | None = None
    reader: TableReader | None = None
    vendor: str | None = None
    max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES
    limit: int | None = None
    is_table_wanted: bool = False
    job_size: tuple[int, int] | None = None

    @property
    def may_use_sccl(self) -> bool:
        """Whether the job may communicate with SCCL: no reader or chips are others'."""
        if self.reader is not None:
            return self.reader.formats == SCCL_FORMATS
        return self.vendor in (None, "sophgo")
