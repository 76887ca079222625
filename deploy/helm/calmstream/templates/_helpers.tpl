{{- define "calmstream.name" -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "calmstream.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "calmstream.labels" -}}
{{ include "calmstream.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "calmstream.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}


{{- define "calmstream.planConfigMap" -}}
{{- if .Values.plan.existingConfigMap -}}
{{ .Values.plan.existingConfigMap }}
{{- else -}}
{{ include "calmstream.name" . }}-plan
{{- end -}}
{{- end -}}

{{/* Whether the release serves a folder of plans; empty if not. */}}
{{- define "calmstream.many" -}}
{{- if or .Values.plans.documents .Values.plans.existingConfigMap .Values.plans.claim -}}yes{{- end -}}
{{- end -}}

{{/* Arguments that say which plans a role serves. */}}
{{- define "calmstream.planArgs" -}}
{{- if include "calmstream.many" . -}}
- --plans=/etc/calmstream-plans
{{- if .Values.plans.allowUnsigned }}
- --allow-unsigned
{{- else }}
- --roots=/etc/calmstream-plans/roots
{{- end }}
{{- else -}}
- --plan=/etc/calmstream/plan.json
{{- end -}}
{{- end -}}

{{/* What restarts pods: another plan or other roots. A change of the folder restarts nothing. */}}
{{- define "calmstream.planChecksum" -}}
{{- if include "calmstream.many" . -}}
checksum/roots: {{ .Values.plans.roots | sha256sum }}
{{- else -}}
checksum/plan: {{ .Values.plan.document | sha256sum }}
{{- end -}}
{{- end -}}

{{/* Environment from a map of settings; called with a list: root, role's settings. */}}
{{- define "calmstream.env" -}}
{{- $root := index . 0 -}}
{{- $settings := mergeOverwrite dict $root.Values.kafka.settings $root.Values.settings (index . 1) -}}
{{- range $name, $value := $settings }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- if $root.Values.kafka.passwordSecret }}
- name: CALMSTREAM_SASL_PASSWORD_FILE
  value: /run/secrets/calmstream/sasl/password
{{- end }}
{{- if $root.Values.kafka.tlsSecret }}
- name: CALMSTREAM_SSL_CAFILE
  value: /run/secrets/calmstream/tls/ca.crt
{{- if $root.Values.kafka.tlsClient }}
- name: CALMSTREAM_SSL_CERTFILE
  value: /run/secrets/calmstream/tls/tls.crt
- name: CALMSTREAM_SSL_KEYFILE
  value: /run/secrets/calmstream/tls/tls.key
{{- end }}
{{- end }}
{{- end -}}

{{- define "calmstream.mounts" -}}
{{- if include "calmstream.many" . -}}
- name: plans
  mountPath: /etc/calmstream-plans
  readOnly: true
{{- else -}}
- name: plan
  mountPath: /etc/calmstream
  readOnly: true
{{- end }}
- name: tmp
  mountPath: /tmp
{{- if .Values.kafka.passwordSecret }}
- name: sasl
  mountPath: /run/secrets/calmstream/sasl
  readOnly: true
{{- end }}
{{- if .Values.kafka.tlsSecret }}
- name: tls
  mountPath: /run/secrets/calmstream/tls
  readOnly: true
{{- end }}
{{- end -}}

{{- define "calmstream.volumes" -}}
{{- if .Values.plans.claim -}}
- name: plans
  persistentVolumeClaim:
    claimName: {{ .Values.plans.claim }}
    readOnly: true
{{- else if include "calmstream.many" . -}}
- name: plans
  configMap:
    name: {{ .Values.plans.existingConfigMap | default (printf "%s-plans" (include "calmstream.name" .)) }}
{{- else -}}
- name: plan
  configMap:
    name: {{ include "calmstream.planConfigMap" . }}
{{- end }}
- name: tmp
  emptyDir: {}
{{- if .Values.kafka.passwordSecret }}
- name: sasl
  secret:
    secretName: {{ .Values.kafka.passwordSecret }}
    items: [{key: password, path: password}]
{{- end }}
{{- if .Values.kafka.tlsSecret }}
- name: tls
  secret:
    secretName: {{ .Values.kafka.tlsSecret }}
{{- end }}
{{- end -}}

{{- define "calmstream.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "calmstream.containerSecurity" -}}
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
{{- end -}}

{{/* How many pods of a component a planned disruption may stop; called with a list: root, component. */}}
{{- define "calmstream.budget" }}
{{- $root := index . 0 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "calmstream.name" $root }}-{{ index . 1 }}
  labels: {{- include "calmstream.labels" $root | nindent 4 }}
spec:
  maxUnavailable: {{ (index $root.Values (index . 1)).maxUnavailable }}
  selector:
    matchLabels:
      {{- include "calmstream.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "calmstream.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: http}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{- define "calmstream.scheduling" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}
