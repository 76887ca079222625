#!/usr/bin/env bash
# Build images from local bases (bases.sh), where images cannot be pulled:
#
#   tests/containers/images.sh [calmstream] [kafka] [prometheus] [tests-3.11] [tests-3.13]
#
# calmstream:local from the real Dockerfile, calmstream-kafka:8.1.0, calmstream-prometheus:local, and
# images that run the tests. By default all but the last two. BASE names another base.
set -euo pipefail
cd "$(dirname "$0")/../.."
export DOCKER_BUILDKIT=0 # BuildKit would ask a registry for local names
base=${BASE:-calmstream-base:3.11}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
[ "$#" -gt 0 ] || set -- calmstream kafka prometheus

for image in "$@"; do
    case $image in
    calmstream)
        docker build --build-arg "PYTHON_IMAGE=$base" --tag calmstream:local .
        ;;
    kafka)
        # testcontainers reads the tag as a version of the Confluent Platform; 8.1 holds Kafka 4.1.
        cp -r tests/containers/kafka "$scratch/kafka"
        cp -rL "$(${PYTHON:-.venv/bin/python} -m tests.brokers.jars)" "$scratch/kafka/jars"
        docker build --tag calmstream-kafka:8.1.0 "$scratch/kafka"
        ;;
    prometheus)
        docker build --tag calmstream-prometheus:local tests/containers/prometheus
        ;;
    tests-*)
        # The committed files, below the context: .dockerignore is for the image of the service.
        mkdir -p "$scratch/$image/src"
        git archive HEAD | tar --extract --directory "$scratch/$image/src"
        docker build --build-arg "BASE=calmstream-base:${image#tests-}" \
            --tag "calmstream-tests:${image#tests-}" \
            --file "$scratch/$image/src/tests/containers/tests.Dockerfile" "$scratch/$image"
        ;;
    *)
        echo "unknown image $image: see the first lines of $0" >&2
        exit 2
        ;;
    esac
done
