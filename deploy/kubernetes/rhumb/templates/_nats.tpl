{{/* What the chart's own NATS is told. */}}

{{/* Nine tenths of a claim, in MiB: the file system needs the rest, and a full disk is worse than a full store. */}}
{{- define "rhumb.natsStoreMiB" -}}
{{- $size := .Values.nats.storage.size -}}
{{- $number := regexFind "^[0-9]+" $size | int64 -}}
{{- $unit := get (dict "Mi" 1 "Gi" 1024 "Ti" 1048576) (regexFind "[A-Z]i$" $size) | int64 -}}
{{- div (mul $number $unit 9) 10 -}}
{{- end -}}

{{- define "rhumb.natsConfig" -}}
server_name: $POD_NAME
listen: "0.0.0.0:4222"
http: "0.0.0.0:8222"
max_payload: 8MB
jetstream {
  store_dir: /data
  max_memory_store: 512MB
  max_file_store: {{ include "rhumb.natsStoreMiB" . }}MB
  sync_interval: {{ .Values.nats.syncInterval | quote }}
}
{{- if gt (int .Values.nats.replicas) 1 }}
cluster {
  name: {{ include "rhumb.fullname" . }}
  listen: "0.0.0.0:6222"
  # Clients know all nodes by names; the addresses of pods change.
  no_advertise: true
  routes: [
    {{- range $node := until (int .Values.nats.replicas) }}
    "nats://{{ include "rhumb.fullname" $ }}-nats-{{ $node }}.{{ include "rhumb.natsHeadless" $ }}:6222"
    {{- end }}
  ]
}
{{- end }}
{{- if .Values.nats.tls.existingSecret }}
tls {
  cert_file: /etc/nats-tls/tls.crt
  key_file: /etc/nats-tls/tls.key
}
{{- end }}
{{- if .Values.broker.credentials.existingSecret }}
include users.conf
{{- end }}
{{- end -}}

{{- define "rhumb.natsAntiAffinity" -}}
{{- $selector := include "rhumb.selector" (dict "root" . "component" "nats") -}}
podAntiAffinity:
  {{- if eq .Values.nats.antiAffinity "required" }}
  requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- $selector | nindent 10 }}
  {{- else }}
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- $selector | nindent 12 }}
  {{- end }}
{{- end -}}
