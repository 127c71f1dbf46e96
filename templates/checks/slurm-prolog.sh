#!/usr/bin/env bash
#
# Prolog of Slurm: check the chips of a node before a job gets it. A node that differs is
# drained with the first finding as its reason, and a batch job goes to other nodes.
#
#   slurm.conf:  Prolog=/etc/slurm/prolog.d/ranktable.sh
#                PrologFlags=Alloc
#                SchedulerParameters=nohold_on_prolog_fail
#
# Variables (slurmd gives a prolog no PATH of yours, so the program is named in full):
#   RANKTABLE  the program (/opt/ranktable/bin/ranktable)
#   TIMEOUT_S  seconds for the whole check (9)
#   CODES      what is checked: ranktable explain says what each code is. Limits and
#              variables of the job are not, because a prolog does not have them.

set -u

RANKTABLE=${RANKTABLE:-/opt/ranktable/bin/ranktable}
CODES=${CODES:-RT702 RT703 RT707 RT708 RT709}

options=()
for code in $CODES; do
  options+=(--select "$code")
done

# Slurm wants a prolog to end within its MessageTimeout, 10 s by default.
found=$(timeout "${TIMEOUT_S:-9}" "$RANKTABLE" check --format concise "${options[@]}" 2>&1 </dev/null)
status=$?

# Only a finding drains the node. A check that could not run or finish does not stop the
# cluster; it is written to the log of the node.
reason=$(grep -m 1 -E '(error|warning)\[RT[0-9]+\]' <<<"$found")
if [[ $status -ne 1 || -z $reason ]]; then
  [[ $status -eq 0 ]] || logger -t ranktable "not checked ($status): ${found:0:400}"
  exit 0
fi

scontrol update NodeName="$SLURMD_NODENAME" State=DRAIN Reason="ranktable: ${reason:0:300}"
logger -t ranktable "$found"
exit 1
