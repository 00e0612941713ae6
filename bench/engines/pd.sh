#!/bin/bash
# Runs one leg of a real prefill/decode pair on a CPU core: serve.sh's engine, whose KV pages move to its partner through
# NIXL over UCX or through Mooncake, both over TCP on the loopback. Stays in the foreground. A decode engine is ready as
# serve.sh's is; a prefill engine when its bootstrap server answers its route as well, see README.md.
#
#   pd.sh nixl|mooncake prefill PORT EVENTS_PORT REPLAY_PORT BOOTSTRAP_PORT [more sglang flags]
#   BIND=1 pd.sh nixl|mooncake decode PORT EVENTS_PORT REPLAY_PORT - [more sglang flags]
set -euo pipefail
if [ $# -lt 6 ]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
root=${WARMPATH_ENGINES:-$HOME/.cache/warmpath-engines}
backend=$1 mode=$2 port=$3 events=$4 replay=$5 bootstrap=$6
shift 6

# libmooncake and libnixl link against RDMA user space, which install.sh unpacked.
export LD_LIBRARY_PATH=$root/lib/usr/lib/x86_64-linux-gnu:$root/lib/lib/x86_64-linux-gnu
# Both libraries otherwise offer every interface of the machine to the partner.
export UCX_NET_DEVICES=lo MC_FORCE_TCP=1 MOONCAKE_PROTOCOL=tcp
export SGLANG_HOST_IP=127.0.0.1 SGLANG_LOCAL_IP_NIC=lo HOST_IP=127.0.0.1
# What a leg waits for a partner that never comes: 300 s by default, which no test can wait for.
export SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT=${WAIT:-20} SGLANG_DISAGGREGATION_WAITING_TIMEOUT=${WAIT:-20}

flags=(--disaggregation-mode "$mode" --disaggregation-transfer-backend "$backend")
case $mode in
prefill) flags+=(--disaggregation-bootstrap-port "$bootstrap") ;;
decode) flags+=(--disaggregation-decode-retraction-backup none) ;; # the backup pool is CUDA host memory
*) echo "pd.sh: $mode: prefill or decode" >&2 && exit 2 ;;
esac
exec "$here/serve.sh" "$port" "$events" "$replay" "${flags[@]}" "$@"
