#!/bin/bash
# Runs one real SGLang engine on a CPU core, with KV events, a replay socket and prefix-cache reports. Stays in the
# foreground; ready when GET /ready answers 200, after 15 to 90 s.
#
#   serve.sh PORT EVENTS_PORT REPLAY_PORT [more sglang flags]
#   BIND=1 serve.sh …    on CPU core 1 instead of core 0
#
#   load socket   '--load-publish-endpoint=tcp://*:PORT'  (a host other than * is refused)
#   two ranks     --dp-size 2                       (events and replay then use two ports each: PORT and PORT + 1)
#   half each     BIND="0|1" serve.sh … --tp-size 2 (two processes that share the work of each token)
#   host tier     --enable-hierarchical-cache --hicache-ratio 2 --hicache-write-policy write_through \
#                 --hicache-io-backend direct --hicache-mem-layout layer_first
#   KV tier       PYTHONPATH=../../integrations/sglang serve.sh … and the flags in integrations/sglang/README.md
#
# The cache is small on purpose (pages of 4 tokens, 4,096 tokens in all), so that evictions come within seconds.
# An engine is three processes (HTTP, scheduler, detokenizer). The other two die with the first (seen with SIGKILL: all
# gone within half a second), so stop it by the process id of this script, which the engine takes over.
set -euo pipefail
if [ $# -lt 3 ]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
root=${WARMPATH_ENGINES:-$HOME/.cache/warmpath-engines}
port=$1 events=$2 replay=$3
shift 3
if [ ! -e "$root/ready" ]; then
  echo "serve.sh: no engine in $root: run $here/install.sh first" >&2
  exit 1
fi

# One OpenMP thread: more of them on one core wait for each other at every layer.
export OMP_NUM_THREADS=1 SGLANG_USE_CPU_ENGINE=1 SGLANG_CPU_OMP_THREADS_BIND=${BIND:-0}
# The CUDA wheel of torch brings NCCL, which a tensor-parallel engine would take to a GPU: where it cannot be loaded, gloo is used.
export SGLANG_NCCL_SO_PATH=/none
export PYTHONPATH=$here/shim${PYTHONPATH:+:$PYTHONPATH} HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1

kv_events="{\"publisher\":\"zmq\",\"topic\":\"kv-events\",\"bind\":true,\"endpoint\":\"tcp://127.0.0.1:$events\",\"replay_endpoint\":\"tcp://127.0.0.1:$replay\"}"
flags=(
  --model-path "$root/tiny" --served-model-name tiny --host 127.0.0.1 --port "$port"
  # What a CPU without AMX can run.
  --device cpu --attention-backend torch_native --sampling-backend pytorch --grammar-backend none
  --disable-overlap-schedule --skip-server-warmup
  # Without it an idle scheduler spins on its core, which it shares with the router and with the client here.
  --sleep-on-idle
  # A small machine's limits.
  --page-size 4 --max-total-tokens 4096 --context-length 2048 --mem-fraction-static 0.1
  --max-running-requests 8 --chunked-prefill-size 1024
  # What a router reads.
  --kv-events-config "$kv_events" --enable-cache-report --enable-metrics
)
exec nice -n 5 "$root/sglang/bin/python" -m sglang.launch_server "${flags[@]}" "$@"
