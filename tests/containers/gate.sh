#!/usr/bin/env bash
# Run `make image-test` where a container engine can be started; elsewhere say why not, and succeed.
#
# The engine has its own socket and directories, so that no other test finds it, and ends with this
# script. Images stay in its directory (ENGINE_DATA), so that the next run need not make the bases again.
set -euo pipefail
cd "$(dirname "$0")/../.."
data=${ENGINE_DATA:-/var/lib/calmstream-docker}
scratch=$(mktemp -d)
engine=

end() {
    if [ -n "$engine" ]; then kill "$engine" 2>/dev/null; wait "$engine" 2>/dev/null || true; fi
    rm -rf "$scratch"
}
trap end EXIT

skip() {
    echo "the image was not tested: $1"
    exit 0
}

[ "$(id -u)" = 0 ] || skip "an engine can be started by root only"
if ! { command -v dockerd && command -v debootstrap && command -v iptables; } >/dev/null; then
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        --no-install-recommends docker.io debootstrap iptables; } >"$scratch/apt" 2>&1 ||
        skip "docker.io and debootstrap cannot be installed"
fi
export DOCKER_HOST=unix://$scratch/docker.sock DOCKER_CONFIG=$scratch/config
dockerd --host "$DOCKER_HOST" --pidfile "$scratch/pid" --exec-root "$scratch/exec" \
    --data-root "$data" --mtu 1400 >"$scratch/log" 2>&1 &
engine=$!
for _ in $(seq 30); do
    if docker info >/dev/null 2>&1; then break; fi
    kill -0 "$engine" 2>/dev/null || { engine=; skip "no engine can be started: $(tail -1 "$scratch/log")"; }
    sleep 1
done
docker info >/dev/null 2>&1 || skip "the engine does not answer within 30 s"
timeout 300 tests/containers/bases.sh bookworm || skip "Debian's packages cannot be had"
# A container must be able to run, and to reach the package index as the build does.
timeout 60 docker run --rm calmstream-base:3.11 sh -c \
    'python3 -m venv /tmp/v && /tmp/v/bin/pip download --quiet --no-deps --dest /tmp/d orjson' \
    >"$scratch/run" 2>&1 || skip "containers do not run or have no network: $(tail -1 "$scratch/run")"
timeout 600 make image-test
