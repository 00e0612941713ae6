#!/bin/bash
# Builds the operators' console, or drives it in headless Chromium:
#
#   console.sh build | test
#
# Node's modules are installed once for a lock file, outside the tree: a folder of them would hide
# in it from git, and not from go. $CHROMIUM names the browser, $ROUTER a router to try as well,
# $SHOTS a folder for pictures, $ONLY a regular expression for names of cases.
set -euo pipefail

cd "$(dirname "$0")/../dataplane/admin/console/ui"
command -v npm >/dev/null || { echo "console.sh: install node 20 or later with npm" >&2; exit 1; }
modules=${WARMPATH_CACHE:-$HOME/.cache/warmpath}/console-$(sha256sum package-lock.json | cut -c1-16)
if [ ! -e "$modules/installed" ]; then
	mkdir -p "$modules"
	cp package.json package-lock.json "$modules"
	npm ci --prefix "$modules" --ignore-scripts --no-audit --no-fund
	touch "$modules/installed"
fi
ln -sfn "$modules/node_modules" node_modules

case ${1-} in
build)
	node_modules/.bin/tsc -p .
	node build.mjs
	;;
test) node test/browser.mjs ;;
*)
	echo "usage: console.sh build | test" >&2
	exit 2
	;;
esac
