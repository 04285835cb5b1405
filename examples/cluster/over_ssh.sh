#!/bin/sh
# A job on hosts that ssh reaches, with a launcher on each:
#
#     sh over_ssh.sh 10.0.0.1,10.0.0.2 --nproc_per_node=2 train.py --epochs 3
#
# This folder and the Python (PYTHON, python3 by default) are at the same paths on all of them. Logs are in log/HOST. A
# launcher that fails ends the others, and this script with a status that is not 0.
set -eu
ips=$1
shift
: "${OAR_JOB_TOKEN:=$(python3 -c 'import secrets; print(secrets.token_hex(32))')}"
arguments=$(printf " '%s'" "$@")
pids=
for ip in $(echo "$ips" | tr , ' '); do
    # The secret is passed by standard input: command lines are visible to all users of a host.
    printf '%s\n' "$OAR_JOB_TOKEN" | ssh "$ip" "cd '$PWD' && read -r OAR_JOB_TOKEN && export OAR_JOB_TOKEN &&
        exec '${PYTHON:-python3}' -m paddle.distributed.launch --log_dir=log/$ip --ips=$ips --node_ip=$ip$arguments" &
    pids="$pids $!"
done
status=0
for pid in $pids; do
    wait "$pid" || { found=$?; [ "$status" -ne 0 ] || status=$found; }
done
exit "$status"
