"""``tpu_gen_sccl_rank_table``: the same options as the vendor's generator.

It may run on every node at every start, so it uses argparse and imports neither torch
nor typer.

Source: SOPHGO torch-tpu, ``torch_tpu/utils/sccl_rank_table.py`` and its manual.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from ranktable.cli.output import output_file, reported
from ranktable.cluster.generate import (
    make_table,
    parse_address_list,
    parse_device_list,
)
from ranktable.schema.writing import dumps, replace_file

if TYPE_CHECKING:
    from ranktable.cluster.generate import ListedChip
    from ranktable.schema.model import Layout, RankTable

PROGRAM = "tpu_gen_sccl_rank_table"
LOOPBACK = "127.0.0.1"
"""The default address of every device, as in the vendor's generator."""


def main() -> None:
    """Run the generator and end the process with its exit status."""
    with reported(PROGRAM):
        _generate(_parser().parse_args())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Generate the SCCL rank table of a job.",
        epilog=f'Example: {PROGRAM} --device_id "[[0..7]]"',
        allow_abbrev=False,
    )
    parser.add_argument(
        "--device_id",
        "--device-id",
        required=True,
        metavar="LISTS",
        help="chips of each node in rank order, for example [[0,1],[2,3]] or [[0..7]]",
    )
    parser.add_argument(
        "--emulator",
        nargs="?",
        const=True,
        default=False,
        type=_true_or_false,
        metavar="True|False",
        help="write the addresses as device_ip_emulator",
    )
    parser.add_argument(
        "--device_ip",
        "--device-ip",
        metavar="LISTS",
        help=f"addresses in the shape of --device_id; {LOOPBACK} by default",
    )
    parser.add_argument(
        "--exact",
        action="store_true",
        help="leave out world_rank, which torch_tpu's reader needs and the vendor's "
        "generator does not write",
    )
    return parser


def _true_or_false(text: str) -> bool:
    if text.casefold() in ("true", "1", "yes"):
        return True
    if text.casefold() in ("false", "0", "no"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")


def _generate(arguments: argparse.Namespace) -> None:
    table = _table(arguments)
    path = output_file()
    # The vendor's file ends without a newline.
    data = dumps(table).removesuffix(b"\n")
    replace_file(path, data)
    _print(table, data, has_addresses=arguments.device_ip is not None)


def _table(arguments: argparse.Namespace) -> RankTable:
    chips = parse_device_list(arguments.device_id)
    sizes = [len(node) for node in chips]
    addresses = [[LOOPBACK] * size for size in sizes]
    if arguments.device_ip is not None:
        addresses = parse_address_list(arguments.device_ip, sizes)
    return make_table(
        [[chip.device_id for chip in node] for node in chips],
        addresses=addresses,
        is_emulated=arguments.emulator,
        layouts=[
            [_layout(chip, exact=arguments.exact) for chip in node] for node in chips
        ],
    )


def _layout(chip: ListedChip, *, exact: bool) -> Layout:
    """Return the vendor's form of a device: an id keeps the type that was given."""
    layout: Layout = (
        ("device_id", str if chip.is_quoted else int),
        ("address", str),
        ("local_rank", str),
        ("rank", str),
    )
    return layout if exact else (*layout, ("world_rank", str))


def _print(table: RankTable, data: bytes, *, has_addresses: bool) -> None:
    """Print what the vendor's generator prints: the table as a Python dictionary."""
    if has_addresses:
        listed = [[device.address for device in node.devices] for node in table.nodes]
        sys.stdout.write(f"IP Addresses: {listed}\n")
    sys.stdout.write(f"{json.loads(data)}\n")
