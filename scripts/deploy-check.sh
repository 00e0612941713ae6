#!/bin/bash
# Lints and renders the Helm chart as operators set it, and parses what else deploy/ has.
# Usage: deploy-check.sh      HELM is the Go tool, see the Makefile
set -euo pipefail
cd "$(dirname "$0")/.."
helm() { go run "$HELM" "$@"; }
chart=deploy/helm/warmpath

helm lint --strict "$chart"
# render prints the objects of a set of values; each must be an object of Kubernetes.
render() {
  helm template demo "$chart" --kube-version 1.30 --namespace inference "$@" | python3 -c '
import sys, yaml
objects = [o for o in yaml.safe_load_all(sys.stdin) if o]
for o in objects:
    assert o["apiVersion"] and o["kind"] and o["metadata"]["name"], o
    for container in o.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []):
        assert container["image"] and container["args"], container
print(" ".join(sorted(o["kind"] for o in objects)))
for o in objects:
    for name, text in o.get("data", {}).items():
        open(sys.argv[1] + "/" + name, "w").write(text)
' "$scratch"
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# As in a pod.
export KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=443
render
go run ./cmd/warmpath config --config "$scratch/router.yaml" --check
render --set router.secretName=warmpath --set podMonitor.enabled=true --set node.enabled=true --set node.config.kv-tier=64GiB \
  --set router.config.cluster=nats://nats.nats:4222 --set router.keysSecretName=keys
WARMPATH_OPERATOR_KEY=x WARMPATH_CLUSTER_TOKEN=x go run ./cmd/warmpath config --config "$scratch/router.yaml" --check
if helm template demo "$chart" --kube-version 1.30 --set podMonitor.enabled=true >/dev/null 2>&1; then
  echo "a PodMonitor without a key is rendered" >&2
  exit 1
fi

python3 -c 'import sys, yaml; assert set(yaml.safe_load(open(sys.argv[1]))["services"]) == {"worker0", "worker1", "router"}' deploy/compose/compose.yaml
bash -n deploy/slurm/warmpath.sbatch
python3 -m json.tool deploy/grafana/warmpath.json >/dev/null
echo "deploy/ is well-formed"
