#!/usr/bin/env bash
# Start a training script on the chips of this host, one process a chip.
#
#   bash torchrun.sh train.py --epochs 3
#
# Variables:
#   RANK_TABLE_FILE  the rank table; made if it is missing (sccl_rank_table.json)
#   DEVICES          chips of a table that is made, in rank order ([[0..7]])
#   TOPOLOGY         links of the host, sophgo-8 or a file: orders the chips of a
#                    table that is made and checks the rings of every table (unset)

set -euo pipefail

if [[ $# -eq 0 ]]; then
  echo "usage: bash torchrun.sh SCRIPT [ARGUMENT]..." >&2
  exit 2
fi

export RANK_TABLE_FILE="${RANK_TABLE_FILE:-sccl_rank_table.json}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"

gen_options=(--device-id "${DEVICES:-[[0..7]]}" --output "$RANK_TABLE_FILE")
validate_options=("$RANK_TABLE_FILE")
if [[ -n "${TOPOLOGY:-}" ]]; then
  gen_options+=(--ring "$TOPOLOGY")
  validate_options+=(--topology "$TOPOLOGY")
fi

if [[ ! -e "$RANK_TABLE_FILE" ]]; then
  ranktable gen "${gen_options[@]}"
fi
# Findings go to standard error here, so that standard output is the job's alone.
ranktable validate "${validate_options[@]}" >&2

world_size="$(ranktable show "$RANK_TABLE_FILE" --format json |
  sed -n 's/^ *"world_size": \([0-9]*\),$/\1/p')"
exec torchrun --standalone --nproc-per-node "$world_size" "$@"
