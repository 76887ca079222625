#!/usr/bin/env bash
# Lint the chart and render the committed sample again (needs helm 3):
#   go install helm.sh/helm/v3/cmd/helm@latest
set -euo pipefail
cd "$(dirname "$0")"
values=(--values sample-values.yaml --set-file plan.document=../plans/devices.plan.json)
helm lint calmstream "${values[@]}" 2>/dev/null
helm template telemetry calmstream --namespace telemetry --kube-version 1.30.0 "${values[@]}" \
    2>/dev/null > rendered/sample.yaml
# What the sample was rendered from; a test compares, so that it cannot become old unnoticed.
find -L calmstream sample-values.yaml ../plans/devices.plan.json -type f -not -path '*/files/*' -not -name '*.json' -print0 |
    LC_ALL=C sort -z | xargs -0 sha256sum > rendered/inputs.sha256
