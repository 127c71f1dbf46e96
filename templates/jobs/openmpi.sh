#!/usr/bin/env bash
# Start a training script on every chip of the hosts of a cluster spec, with Open MPI.
# The table and the host file lie in the working folder, which all hosts see.
#
#   ranktable init two-boxes && bash openmpi.sh train.py --epochs 3
#
# Variables:
#   SPEC  the cluster spec; its nodes are hosts by name (cluster.yaml)

set -euo pipefail

if [[ $# -eq 0 ]]; then
  echo "usage: bash openmpi.sh SCRIPT [ARGUMENT]..." >&2
  exit 2
fi

export RANK_TABLE_FILE="$PWD/rank_table.json"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"

ranktable gen --spec "${SPEC:-cluster.yaml}" --output "$RANK_TABLE_FILE" --force
ranktable convert "$RANK_TABLE_FILE" --to openmpi-hostfile --output hosts --force

# Once per node; it starts one process for each chip, on any CPUs of the node.
exec mpirun --hostfile hosts --map-by ppr:1:node --bind-to none \
  -x PATH -x RANK_TABLE_FILE -x OMP_NUM_THREADS \
  ranktable run "$@"
