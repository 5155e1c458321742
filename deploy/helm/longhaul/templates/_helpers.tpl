{{- define "longhaul.name" -}}
{{- $name := .Release.Name }}
{{- if not (contains "longhaul" $name) }}{{ $name = printf "%s-longhaul" $name }}{{ end }}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "longhaul.coordinator" -}}
{{ include "longhaul.name" . }}-coordinator
{{- end }}

{{- define "longhaul.pool" -}}
{{ include "longhaul.name" . }}-pool
{{- end }}

{{- /* Called with (dict "root" $ "component" "coordinator"). */ -}}
{{- define "longhaul.selector" -}}
app.kubernetes.io/name: longhaul
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "longhaul.labels" -}}
{{ include "longhaul.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "longhaul.image" -}}
{{ .root.Values.image.registry }}/longhaul-{{ .image }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{- define "longhaul.podSecurity" -}}
runAsNonRoot: true
{{- if .Values.securityContext.fixedIds }}
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
{{- end }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "longhaul.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* Environment of TLS: files below /tls; else plaintext is allowed in so many words. */ -}}
{{- define "longhaul.tlsEnvironment" -}}
{{- if . }}
- {name: LONGHAUL_TLS_CA, value: /tls/ca.crt}
- {name: LONGHAUL_TLS_CERTIFICATE, value: /tls/tls.crt}
- {name: LONGHAUL_TLS_KEY, value: /tls/tls.key}
- {name: LONGHAUL_HTTP_TLS, value: "true"}
{{- end }}
{{- end }}

{{- /* Of probes, which do not verify the certificate. */ -}}
{{- define "longhaul.scheme" -}}
{{- if . }}, scheme: HTTPS{{ end }}
{{- end }}

{{- define "longhaul.tlsVolume" -}}
{{- if . }}
- name: tls
  secret: {secretName: {{ . | quote }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{- define "longhaul.tokensVolume" -}}
{{- if . }}
- name: tokens
  secret: {secretName: {{ . | quote }}, defaultMode: 0440}
{{- end }}
{{- end }}
