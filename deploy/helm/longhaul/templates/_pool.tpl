{{- /* A node of the pool, whatever keeps it. */ -}}
{{- define "longhaul.poolPod" -}}
{{- $me := dict "root" $ "component" "pool" }}
{{- $pool := .Values.pool }}
{{- $tls := include "longhaul.poolTls" . }}
{{- $of := dict "root" $ "tls" $tls "port" 7072 "extra" $pool }}
{{- $ends := eq $pool.kind "JobSet" -}}
metadata:
  {{- include "longhaul.podMetadata" $me | nindent 2 }}
spec:
  {{- include "longhaul.pod" $me | nindent 2 }}
  {{- if $ends }}
  restartPolicy: OnFailure
  {{- end }}
  # The ranks finish their step and send what they owe; then the agent says where it stopped.
  terminationGracePeriodSeconds: {{ add $pool.drainSeconds 15 }}
  {{- if $pool.hostNetwork }}
  hostNetwork: true
  {{- if not $pool.dnsPolicy }}
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  {{- end }}
  {{- if $pool.affinity }}
  affinity: {{- tpl (toYaml $pool.affinity) . | nindent 4 }}
  {{- else if gt (int $pool.nodes) 1 }}
  # Nodes of a pool are machines: two on one would halve it.
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels: {{- include "longhaul.selector" $me | nindent 16 }}
  {{- end }}
  {{- with $pool.initContainers }}
  initContainers: {{- tpl (toYaml .) $ | nindent 4 }}
  {{- end }}
  containers:
    - name: worker
      image: {{ include "longhaul.image" (merge (dict "image" (ternary "worker-cuda" "worker" (eq $pool.device "cuda"))) $me) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      {{- if $ends }}
      # A pod that is evicted drains and ends with 0, as one of an idle pool does; but it has to start again.
      command:
        - /usr/bin/tini
        - --
        - bash
        - -c
        - |
          worker= stopped= code=0
          trap 'stopped=1; [ -z "$worker" ] || kill -TERM "$worker"' TERM
          longhaul-worker "$@" &
          worker=$!
          [ -z "$stopped" ] || kill -TERM "$worker"
          # A signal ends the wait, and not the worker.
          while true; do
            wait "$worker" && code=0 || code=$?
            kill -0 "$worker" 2>/dev/null || break
          done
          [ -z "$stopped" ] || exit 143
          exit "$code"
        - longhaul-worker
      {{- end }}
      args:
        - --device={{ $pool.device }}
        - --ranks={{ $pool.ranks }}
        {{- if $pool.threads }}
        - --threads={{ $pool.threads }}
        {{- end }}
        {{- if gt (int $pool.nodes) 1 }}
        - --nodes={{ $pool.nodes }}
        - --in-pool-address=$(POD_IP)
        # Gloo and NCCL talk in plaintext between the nodes: the NetworkPolicy keeps others out.
        - --allow-plaintext-beyond-localhost
        {{- end }}
        - --drain-seconds={{ $pool.drainSeconds }}
        - --return-within={{ $pool.returnWithin }}
        - --progress-timeout={{ $pool.progressTimeoutSeconds }}
        {{- if $ends }}
        - --exit-when-idle={{ $pool.exitWhenIdle }}
        {{- end }}
        {{- range $pool.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      env:
        - {name: LONGHAUL_POOL, value: {{ include "longhaul.poolName" . | quote }}}
        - {name: LONGHAUL_COORDINATOR, value: {{ $pool.coordinator | default (printf "%s:%d" (include "longhaul.coordinator" .) (int .Values.coordinator.service.port)) | quote }}}
        - {name: LONGHAUL_LINK_MBPS, value: {{ $pool.linkMbps | quote }}}
        - {name: LONGHAUL_DATA_DIR, value: {{ $pool.data.path | quote }}}
        {{- if $pool.state.enabled }}
        - {name: LONGHAUL_STATE_DIR, value: /state}
        - {name: LONGHAUL_STATE_EVERY, value: {{ $pool.state.every | quote }}}
        # Tokens that are made of text outlast the pod.
        - {name: LONGHAUL_WORK_DIR, value: /state/work}
        {{- end }}
        {{- if gt (int $pool.nodes) 1 }}
        - name: POD_IP
          valueFrom: {fieldRef: {fieldPath: status.podIP}}
        {{- if $ends }}
        - name: LONGHAUL_NODE
          valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
        {{- else if $pool.hostNetwork }}
        # The host's name does not say it.
        - name: LONGHAUL_NODE
          valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}
        {{- end }}
        {{- end }}
        {{- include "longhaul.access" $of | nindent 8 }}
        {{- with $pool.extraEnv }}
        {{- tpl (toYaml .) $ | nindent 8 }}
        {{- end }}
      {{- with $pool.extraEnvFrom }}
      envFrom: {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - {name: http, containerPort: 7072, protocol: TCP}
      startupProbe:
        {{- include "longhaul.probe" (merge (dict "path" "/healthz") $of) | nindent 8 }}
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: 60
      # A worker whose coordinator is away trains on: that is readiness, not health.
      livenessProbe:
        {{- include "longhaul.probe" (merge (dict "path" "/healthz") $of) | nindent 8 }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        {{- include "longhaul.probe" (merge (dict "path" "/readyz") $of) | nindent 8 }}
        periodSeconds: 5
        timeoutSeconds: 5
      {{- $resources := deepCopy $pool.resources }}
      {{- if eq $pool.device "cuda" }}
      {{- $resources = merge (dict "limits" (dict $pool.gpuResource (toString (int $pool.ranks)))) $resources }}
      {{- end }}
      resources: {{- toYaml $resources | nindent 8 }}
      securityContext: {{- include "longhaul.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - {name: shm, mountPath: /dev/shm}
        {{- if $pool.state.enabled }}
        - {name: state, mountPath: /state}
        {{- end }}
        {{- if $pool.data.claim }}
        - {name: data, mountPath: {{ $pool.data.path | quote }}, readOnly: true}
        {{- end }}
        {{- include "longhaul.mounts" $of | nindent 8 }}
    {{- with $pool.extraContainers }}
    {{- tpl (toYaml .) $ | nindent 4 }}
    {{- end }}
  volumes:
    - {name: shm, emptyDir: {medium: Memory, sizeLimit: {{ $pool.shmSize | quote }}}}
    {{- with $pool.data.claim }}
    - {name: data, persistentVolumeClaim: {claimName: {{ . | quote }}, readOnly: true}}
    {{- end }}
    {{- if and $pool.state.enabled $pool.state.existingClaim }}
    - {name: state, persistentVolumeClaim: {claimName: {{ $pool.state.existingClaim | quote }}}}
    {{- end }}
    {{- include "longhaul.volumes" $of | nindent 4 }}
{{- end }}
