#!/usr/bin/env bash
# Lint the chart and render the committed samples again (needs helm 3):
#   go install helm.sh/helm/v3/cmd/helm@v3.22.0
set -euo pipefail
cd "$(dirname "$0")"
render() { # values, sample, options of helm
    local values=(--values "$1" "${@:3}")
    helm lint calmstream "${values[@]}" 2>/dev/null
    helm template telemetry calmstream --namespace telemetry --kube-version 1.30.0 "${values[@]}" \
        2>/dev/null > "rendered/$2.yaml"
}
for sample in sample gateway serve sink; do
    render "$sample-values.yaml" "$sample" --set-file plan.document=../plans/devices.plan.json
done
render central-values.yaml central --set-file plan.document=central-sample.plan.json
render plans-values.yaml plans
render trial-plans-values.yaml trial-plans \
    --set-file 'plans.documents.devices\.json=../plans/devices.plan.json' \
    --set-file 'plans.documents.browser\.json=../plans/browser.plan.json'
# Hashes of the inputs: a test compares them and fails if the samples are outdated.
find -L calmstream ./*-values.yaml ./*.plan.json ../plans/devices.plan.json ../plans/browser.plan.json -type f -not -path '*/files/*' -not -name '*.schema.json' -print0 |
    LC_ALL=C sort -z | xargs -0 sha256sum > rendered/inputs.sha256
