{{- define "longhaul.name" -}}
{{- $name := .Values.fullnameOverride }}
{{- if not $name }}
{{- $chart := .Values.nameOverride | default "longhaul" }}
{{- $name = .Release.Name }}
{{- if not (contains $chart $name) }}{{ $name = printf "%s-%s" $name $chart }}{{ end }}
{{- end }}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "longhaul.coordinator" -}}
{{ include "longhaul.name" . }}-coordinator
{{- end }}

{{- define "longhaul.pool" -}}
{{ include "longhaul.name" . }}-pool
{{- end }}

{{- define "longhaul.poolName" -}}
{{ .Values.pool.name | default .Release.Name }}
{{- end }}

{{- /* Called with (dict "root" $ "component" "coordinator"). */ -}}
{{- define "longhaul.selector" -}}
app.kubernetes.io/name: longhaul
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- /* Labels and annotations of an object; `labels`: more of them. */ -}}
{{- define "longhaul.metadata" -}}
labels:
  {{- include "longhaul.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
  {{- with merge (dict) (.labels | default dict) .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Of pods: without what another version of the chart would change, since that starts them again. */ -}}
{{- define "longhaul.podMetadata" -}}
labels:
  {{- include "longhaul.selector" . | nindent 2 }}
  {{- with merge (dict) (index .root.Values .component).podLabels .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (index .root.Values .component).podAnnotations .root.Values.commonAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "longhaul.serviceFamilies" -}}
ipFamilyPolicy: {{ .Values.ipFamilyPolicy }}
{{- with .Values.ipFamilies }}
ipFamilies: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Names of the secrets with certificates. Empty: there is none. */ -}}
{{- define "longhaul.coordinatorTls" -}}
{{- if .Values.tls.coordinatorSecret }}{{ .Values.tls.coordinatorSecret }}
{{- else if .Values.tls.certManager.issuer.name }}{{ include "longhaul.coordinator" . }}-tls
{{- end }}
{{- end }}

{{- define "longhaul.poolTls" -}}
{{- if .Values.tls.poolSecret }}{{ .Values.tls.poolSecret }}
{{- else if .Values.tls.certManager.issuer.name }}{{ include "longhaul.pool" . }}-tls
{{- end }}
{{- end }}

{{- /* Whether others than the pod itself reach HTTP: not empty if so. */ -}}
{{- define "longhaul.httpOpen" -}}
{{- if or .Values.tokens.secret .Values.insecure }}true{{ end }}
{{- end }}

{{- define "longhaul.image" -}}
{{- $whole := (index .root.Values .component).image }}
{{- if $whole }}{{ $whole }}
{{- else }}{{ .root.Values.image.registry }}/longhaul-{{ .image }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "longhaul.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "longhaul.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- /* What both kinds of pods have beside containers and volumes. */ -}}
{{- define "longhaul.pod" -}}
{{- $of := index .root.Values .component -}}
serviceAccountName: {{ include "longhaul.serviceAccount" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- $security := dict "runAsNonRoot" true "fsGroupChangePolicy" "OnRootMismatch" "seccompProfile" (dict "type" "RuntimeDefault") }}
{{- if and .root.Values.securityContext.fixedIds (not (.root.Capabilities.APIVersions.Has "security.openshift.io/v1")) }}
{{- $security = merge $security (dict "runAsUser" 10001 "runAsGroup" 10001 "fsGroup" 10001) }}
{{- end }}
securityContext: {{- toYaml (mergeOverwrite $security (deepCopy .root.Values.securityContext.pod)) | nindent 2 }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ if kindIs "map" . }}{{ .name }}{{ else }}{{ . }}{{ end }}
  {{- end }}
{{- end }}
{{- range $name := list "nodeSelector" "tolerations" "topologySpreadConstraints" "dnsConfig" "hostAliases" }}
{{- with index $of $name }}
{{ $name }}: {{- tpl (toYaml .) $.root | nindent 2 }}
{{- end }}
{{- end }}
{{- range $name := list "priorityClassName" "runtimeClassName" "schedulerName" "dnsPolicy" }}
{{- with index $of $name }}
{{ $name }}: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "longhaul.containerSecurity" -}}
{{- $security := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) }}
{{- toYaml (mergeOverwrite $security (deepCopy .Values.securityContext.container)) }}
{{- end }}

{{- /* Called with (dict "root" $ "tls" SECRET "port" 7071): how the program is reached, and by whom. */ -}}
{{- define "longhaul.access" -}}
- {name: LONGHAUL_LOG_LEVEL, value: {{ .root.Values.log.level | quote }}}
- {name: LONGHAUL_LOG_FORMAT, value: {{ .root.Values.log.format | quote }}}
{{- if .tls }}
- {name: LONGHAUL_TLS_CA, value: /tls/ca.crt}
- {name: LONGHAUL_TLS_CERTIFICATE, value: /tls/tls.crt}
- {name: LONGHAUL_TLS_KEY, value: /tls/tls.key}
{{- end }}
{{- if include "longhaul.httpOpen" .root }}
# All addresses of the pod, of both families.
- {name: LONGHAUL_HTTP_LISTEN, value: "[::]:{{ .port }}"}
{{- if .tls }}
- {name: LONGHAUL_HTTP_TLS, value: "true"}
{{- end }}
{{- else }}
# Without tokens only the pod's own probes reach it.
- {name: LONGHAUL_HTTP_LISTEN, value: "127.0.0.1:{{ .port }}"}
{{- end }}
{{- if .root.Values.tokens.secret }}
- {name: LONGHAUL_TOKENS, value: /tokens/tokens}
{{- end }}
{{- if .root.Values.insecure }}
- {name: LONGHAUL_INSECURE, value: "true"}
{{- end }}
{{- end }}

{{- /* Called with (dict "root" $ "tls" SECRET "path" "/healthz"). Probes do not verify certificates. */ -}}
{{- define "longhaul.probe" -}}
{{- if include "longhaul.httpOpen" .root -}}
httpGet: {path: {{ .path }}, port: http{{ if .tls }}, scheme: HTTPS{{ end }}}
{{- else -}}
exec: {command: [healthcheck, {{ .path }}]}
{{- end }}
{{- end }}

{{- /* Called with (dict "root" $ "tls" SECRET "extra" POOL OR COORDINATOR). */ -}}
{{- define "longhaul.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .tls }}
- {name: tls, mountPath: /tls, readOnly: true}
{{- end }}
{{- if .root.Values.tokens.secret }}
- {name: tokens, mountPath: /tokens, readOnly: true}
{{- end }}
{{- with .extra.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "longhaul.volumes" -}}
- {name: tmp, emptyDir: {}}
{{- if .tls }}
- name: tls
  secret: {secretName: {{ .tls | quote }}, defaultMode: 0440}
{{- end }}
{{- with .root.Values.tokens.secret }}
- name: tokens
  secret: {secretName: {{ . | quote }}, defaultMode: 0440}
{{- end }}
{{- with .extra.extraVolumes }}
{{ tpl (toYaml .) $.root }}
{{- end }}
{{- end }}

{{- /* Called with (dict "root" $ "component" COMPONENT "volume" coordinator.volume or pool.state "name" NAME). */ -}}
{{- define "longhaul.claimTemplate" -}}
- metadata:
    name: {{ .name }}
    {{- with .volume.annotations }}
    annotations: {{- toYaml . | nindent 6 }}
    {{- end }}
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .volume.storageClass }}
    storageClassName: {{ . | quote }}
    {{- end }}
    resources: {requests: {storage: {{ .volume.size | quote }}}}
{{- end }}

{{- define "longhaul.disruption" -}}
{{- $of := index .root.Values .component }}
{{- if $of.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include (printf "longhaul.%s" .component) .root }}
  {{- include "longhaul.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ $of.podDisruptionBudget.maxUnavailable }}
  # Pods that are not ready wait for something: the coordinator, other nodes. To evict them loses nothing.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "longhaul.selector" . | nindent 6 }}
{{- end }}
{{- end }}
