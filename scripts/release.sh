#!/bin/bash
# Makes everything that a release publishes of HEAD, below dist/: a tarball, the .deb, the .rpm, a
# wheel, the list of modules (SBOM, CycloneDX), and SHA256SUMS. The same commit, Go and C library
# give the same bytes: times are the commit's, and paths are cut out.
# Usage: release.sh [DIR]      NFPM and CYCLONEDX are the Go tools, see the Makefile
#        release.sh check      makes all of it twice, compares, and tries each as its user would
set -euo pipefail

ROOT=$(cd "$(dirname "$0")/.." && pwd)
cd "$ROOT"
export ROOT GOFLAGS= # a release is what `go build` makes

# The version of packages: a tag's numbers, else 0.0.0 and the commit, before any release.
version() {
  local tag
  if tag=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null); then
    echo "${tag#v}"
  else
    echo "0.0.0+git.$(git rev-parse --short=12 HEAD)"
  fi
}

# The oldest glibc that has all that the binary asks for, as a wheel's tag has it.
glibc() { objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1 | sed 's/GLIBC_//; s/\./_/'; }

make_all() {
  local dist=$1
  if [ -n "$(git status --porcelain --untracked-files=no)" ]; then
    echo "release.sh: the tree has changes that no commit has: commit them first" >&2
    exit 1
  fi
  export PACKAGE_VERSION ARCH MTIME STAGE SOURCE_DATE_EPOCH
  PACKAGE_VERSION=$(version)
  ARCH=$(go env GOARCH)
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
  MTIME=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
  STAGE=$(mktemp -d)
  trap 'rm -rf "$STAGE"' RETURN
  rm -rf "$dist"
  mkdir -p "$dist"

  local name="warmpath_${PACKAGE_VERSION}_linux_${ARCH}"
  scripts/image.sh binary "$STAGE/warmpath" "$PACKAGE_VERSION" "$(git rev-parse HEAD)" "$MTIME"
  for unit in warmpath.service warmpath-node.service warmpath.socket; do
    # The package has the binary and the units where the distribution's are.
    sed -e 's#/usr/local/bin/#/usr/bin/#' -e '/^# .*[Ii]nstall:$/d' -e '/^#   install -m/d' "systemd/$unit" >"$STAGE/$unit"
  done

  mkdir "$STAGE/$name"
  cp -r "$STAGE/warmpath" LICENSE README.md CHANGELOG.md systemd alerts "$STAGE/$name/"
  mkdir "$STAGE/$name/config"
  cp deploy/packages/{router.yaml,workers,node.yaml,router.env,node.env} "$STAGE/$name/config/"
  tar --sort=name --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' --mtime="@$SOURCE_DATE_EPOCH" \
    -C "$STAGE" -cf - "$name" | gzip -n9 >"$dist/$name.tar.gz"

  # nfpm fills in variables in some fields only: all of them are filled in here.
  local config=$STAGE/nfpm.yaml
  sed -e "s#\${ARCH}#$ARCH#; s#\${PACKAGE_VERSION}#$PACKAGE_VERSION#; s#\${MTIME}#$MTIME#; s#\${STAGE}#$STAGE#; s#\${ROOT}#$ROOT#" deploy/packages/nfpm.yaml >"$config"
  for kind in deb rpm; do
    go run "$NFPM" package --config "$config" --packager "$kind" --target "$dist/"
  done

  deploy/packages/wheel.py "$STAGE/warmpath" "$PACKAGE_VERSION" "$(glibc "$STAGE/warmpath")" "$dist"
  go run "$CYCLONEDX" bin -json -noserial -version "v$PACKAGE_VERSION" -output "$STAGE/sbom.json" "$STAGE/warmpath" 2>/dev/null
  # The tool writes the time of its run.
  sed '/"timestamp":/d' "$STAGE/sbom.json" >"$dist/$name.cdx.json"

  (cd "$dist" && sha256sum -- * | sort -k2 >SHA256SUMS)
}

check() {
  local first second
  first=$(mktemp -d) second=$(mktemp -d)
  trap 'rm -rf "$first" "$second"' RETURN
  make_all "$first/dist"
  make_all "$second/dist"
  diff "$first/dist/SHA256SUMS" "$second/dist/SHA256SUMS"
  echo "the same bytes twice:"
  cat "$first/dist/SHA256SUMS"

  cd "$first/dist"
  mkdir ../tar ../deb
  tar -C ../tar -xzf ./*.tar.gz
  ../tar/*/warmpath --version
  dpkg-deb -x ./*.deb ../deb
  dpkg-deb -I ./*.deb
  # The unit makes the folder of the snapshot.
  ../deb/usr/bin/warmpath config --config ../deb/etc/warmpath/router.yaml --snapshot "$first/index.snapshot" --check
  grep -q '^ExecStart=/usr/bin/warmpath serve' ../deb/usr/lib/systemd/system/warmpath.service
  if command -v systemd-analyze >/dev/null; then
    # The package's tree is no whole system.
    if systemd-analyze verify --root=../deb warmpath.service warmpath-node.service 2>&1 |
      grep -vE 'sysinit.target not found|/bin/kill is not executable'; then
      return 1
    fi
    # Exposure in tenths: the router asks for next to nothing; the sidecar is root among engines.
    systemd-analyze security --offline=true --no-pager --threshold=20 ../deb/usr/lib/systemd/system/warmpath.service >/dev/null
    systemd-analyze security --offline=true --no-pager --threshold=55 ../deb/usr/lib/systemd/system/warmpath-node.service >/dev/null
  fi
  if command -v rpm >/dev/null; then
    rpm -qp --nosignature --qf '%{NAME} %{VERSION} %{ARCH}\n' ./*.rpm
  fi
  python3 -m venv ../venv
  ../venv/bin/pip install --quiet --disable-pip-version-check --no-index ./*.whl
  ../venv/bin/warmpath --version
  ../venv/bin/pip uninstall --quiet --yes warmpath
  [ ! -e ../venv/bin/warmpath ]
  python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["components"]), "modules in the SBOM")' ./*.cdx.json
}

case "${1:-dist}" in
check) check ;;
*) make_all "${1:-dist}" && ls -l "${1:-dist}" ;;
esac
