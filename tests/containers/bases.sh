#!/usr/bin/env bash
# Make base images from Debian's packages, where images cannot be pulled:
#
#   tests/containers/bases.sh [bookworm] [trixie]
#
# makes calmstream-base:3.11 (bookworm) and calmstream-base:3.13 (trixie), both by default. A base
# that exists is kept. Needs root, docker and debootstrap. The images are for this machine: they hold
# its certificates and its pip settings (/usr/local/share/ca-certificates, /etc/pip.conf). Push none.
set -euo pipefail
declare -A python=([bookworm]=3.11 [trixie]=3.13)
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
[ "$#" -gt 0 ] || set -- bookworm trixie
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

make_layer() { # the directory that receives what this machine needs to reach its package index
    mkdir -p "$1/etc" "$1/usr/local/share/ca-certificates"
    if [ -f /etc/pip.conf ]; then cp /etc/pip.conf "$1/etc/"; fi
    find /usr/local/share/ca-certificates -name '*.crt' \
        -exec cp {} "$1/usr/local/share/ca-certificates/" \;
}

for suite in "$@"; do
    tag=calmstream-base:${python[$suite]:?"unknown suite $suite: expected bookworm or trixie"}
    if docker image inspect "$tag" >/dev/null 2>&1; then
        echo "$tag exists"
        continue
    fi
    echo "making $tag from Debian $suite"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates \
        "$suite" "$scratch/$suite" "$mirror" >"$scratch/log" 2>&1 ||
        { tail -5 "$scratch/log" >&2; exit 1; }
    rm -rf "$scratch/$suite"/var/cache/apt/archives/*.deb "$scratch/$suite"/var/lib/apt/lists/*
    tar --create --directory "$scratch/$suite" . |
        docker import --change 'CMD ["python"]' - "calmstream-debian:$suite" >/dev/null
    rm -rf "${scratch:?}/$suite"
    mkdir "$scratch/context"
    make_layer "$scratch/context/layer"
    # `python`, as the official images name it; /tmp, which a private umask may have closed.
    printf '%s\n' "FROM calmstream-debian:$suite" 'COPY layer/ /' \
        'RUN update-ca-certificates && ln -s python3 /usr/bin/python && chmod 1777 /tmp' \
        >"$scratch/context/Dockerfile"
    DOCKER_BUILDKIT=0 docker build --quiet --tag "$tag" "$scratch/context" >/dev/null
    rm -rf "$scratch/context"
done
