#!/usr/bin/env bash
# Lint the chart and render the committed samples again (needs helm 3):
#   go install helm.sh/helm/v3/cmd/helm@latest
set -euo pipefail
cd "$(dirname "$0")"
render() { # values, plan, sample
    local values=(--values "$1" --set-file "plan.document=$2")
    helm lint calmstream "${values[@]}" 2>/dev/null
    helm template telemetry calmstream --namespace telemetry --kube-version 1.30.0 "${values[@]}" \
        2>/dev/null > "rendered/$3.yaml"
}
render sample-values.yaml ../plans/devices.plan.json sample
render gateway-values.yaml ../plans/devices.plan.json gateway
render central-values.yaml central-sample.plan.json central
# Hashes of the inputs: a test compares them and fails if the samples are outdated.
find -L calmstream ./*-values.yaml ./*.plan.json ../plans/devices.plan.json -type f -not -path '*/files/*' -not -name '*.schema.json' -print0 |
    LC_ALL=C sort -z | xargs -0 sha256sum > rendered/inputs.sha256
