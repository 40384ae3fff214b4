{{/* What several templates share: names, labels, the stages, the configuration, and the pod of a program. */}}

{{- define "rhumb.fullname" -}}
{{- .Values.fullnameOverride | default .Release.Name | replace "." "-" | trunc 36 | trimSuffix "-" -}}
{{- end -}}

{{- define "rhumb.selector" -}}
app.kubernetes.io/name: rhumb
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "rhumb.labels" -}}
{{ include "rhumb.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: rhumb
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* name, namespace and labels of an object. */}}
{{- define "rhumb.metadata" -}}
name: {{ include "rhumb.fullname" .root }}{{ with .component }}-{{ . }}{{ end }}{{ .suffix }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "rhumb.labels" . | nindent 2 }}
{{- end -}}

{{- define "rhumb.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* The stages: key of their values, and whether they keep files. */}}
{{- define "rhumb.stages" -}}
host-splitter: {key: hostSplitter, hasState: false, graceSeconds: 60}
resolver: {key: resolver, hasState: false, graceSeconds: 60}
fetcher: {key: fetcher, hasState: false, graceSeconds: 60}
parser: {key: parser, hasState: false, graceSeconds: 60}
# A move of all partitions of an instance that is scaled away.
dedup: {key: dedup, hasState: true, graceSeconds: 600}
scheduler: {key: scheduler, hasState: true, graceSeconds: 600}
archiver: {key: archiver, hasState: true, graceSeconds: 120}
{{- end -}}

{{- define "rhumb.crawl" -}}
{{- .Values.config.crawl | default (.Release.Name | replace "." "-") -}}
{{- end -}}

{{- define "rhumb.natsHeadless" -}}
{{ include "rhumb.fullname" . }}-nats-headless.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end -}}

{{- define "rhumb.natsScheme" -}}
{{ ternary "tls" "nats" (ne .Values.nats.tls.existingSecret "") }}
{{- end -}}

{{/* The broker's URLs, with commas between them; nothing when they are in a Secret. A client that knows all nodes goes to the
next at once when one is gone. */}}
{{- define "rhumb.brokerUrl" -}}
{{- if .Values.nats.enabled -}}
{{- $urls := list -}}
{{- range $node := until (int .Values.nats.replicas) -}}
{{- $urls = append $urls (printf "%s://%s-nats-%d.%s:4222" (include "rhumb.natsScheme" $) (include "rhumb.fullname" $) $node (include "rhumb.natsHeadless" $)) -}}
{{- end -}}
{{- join "," $urls -}}
{{- else if not .Values.broker.existingSecret -}}
{{- join "," .Values.broker.urls -}}
{{- end -}}
{{- end -}}

{{/* The instances with which a stage begins. */}}
{{- define "rhumb.replicas" -}}
{{- $scale := get .root.Values.autoscaling .key | default (dict "kind" "none") -}}
{{- if ne $scale.kind "none" -}}{{ $scale.minReplicas }}
{{- else -}}{{ dig "replicas" nil (get .root.Values .key) | default 1 }}{{ end -}}
{{- end -}}

{{/* pipeline.yaml of the crawl: `config`, and what the chart knows better. */}}
{{- define "rhumb.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $stages := dict -}}
{{- range $name, $stage := include "rhumb.stages" . | fromYaml -}}
{{- $replicas := include "rhumb.replicas" (dict "root" $ "key" $stage.key) | int -}}
{{- if eq $name "archiver" -}}{{- $replicas = int $.Values.archiver.replicas -}}{{- end -}}
{{- $_ := set $stages $name (dict "listen" "0.0.0.0:9100" "replicas" $replicas) -}}
{{- end -}}
{{- $broker := dict -}}
{{- with include "rhumb.brokerUrl" . -}}{{- $_ := set $broker "url" . -}}{{- end -}}
{{- if .Values.broker.ca.existingSecret -}}{{- $_ := set $broker "ca" "/etc/rhumb-ca/ca.crt" -}}{{- end -}}
{{- if .Values.nats.enabled -}}
{{- $_ := set $broker "replicas" (dig "broker" "replicas" (int .Values.nats.replicas) .Values.config) -}}
{{- end -}}
{{- $own := dict "crawl" (include "rhumb.crawl" .) "owner" (printf "%s/%s" .Release.Namespace .Release.Name) "data" "/data" "broker" $broker "stages" $stages "conductor" (dict "listen" "0.0.0.0:9100") -}}
{{- mergeOverwrite $config $own | toYaml -}}
{{- end -}}

{{/* What restarts pods when it changes: all of the configuration but numbers of instances, which processes find out about. */}}
{{- define "rhumb.checksum" -}}
{{- $config := include "rhumb.config" . | fromYaml -}}
{{- range $name, $stage := $config.stages -}}
{{- $_ := set $stage "replicas" (and (eq $name "archiver") (gt (int $stage.replicas) 0)) -}}
{{- end -}}
{{- toYaml $config | sha256sum -}}
{{- end -}}

{{- define "rhumb.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "rhumb.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Environment: what is secret, and what differs from pod to pod. */}}
{{- define "rhumb.env" -}}
{{- if .root.Values.broker.existingSecret }}
- name: RHUMB__BROKER__URL
  valueFrom:
    secretKeyRef: {name: {{ .root.Values.broker.existingSecret }}, key: {{ .root.Values.broker.urlKey }}}
{{- end }}
{{- if .root.Values.broker.credentials.existingSecret }}
- name: RHUMB__BROKER__CREDENTIALS
  value: /etc/rhumb-credentials/{{ .user }}.nk
{{- end }}
{{- with .root.Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Of its credentials a pod has those of its own user alone. */}}
{{- define "rhumb.mounts" -}}
- {name: config, mountPath: /etc/rhumb, readOnly: true}
- {name: tmp, mountPath: /tmp}
- {name: data, mountPath: /data}
{{- if .root.Values.broker.credentials.existingSecret }}
- {name: credentials, mountPath: /etc/rhumb-credentials, readOnly: true}
{{- end }}
{{- if .root.Values.broker.ca.existingSecret }}
- {name: ca, mountPath: /etc/rhumb-ca, readOnly: true}
{{- end }}
{{- end -}}

{{- define "rhumb.volumes" -}}
- name: config
  configMap: {name: {{ include "rhumb.fullname" .root }}-config}
- name: tmp
  emptyDir: {}
{{- if not .hasState }}
- name: data
  emptyDir: {}
{{- end }}
{{- if .root.Values.broker.credentials.existingSecret }}
- name: credentials
  secret:
    secretName: {{ .root.Values.broker.credentials.existingSecret }}
    defaultMode: 0440
    items: [{key: {{ .user }}.nk, path: {{ .user }}.nk}]
{{- end }}
{{- if .root.Values.broker.ca.existingSecret }}
- name: ca
  secret:
    secretName: {{ .root.Values.broker.ca.existingSecret }}
    items: [{key: {{ .root.Values.broker.ca.key }}, path: ca.crt}]
{{- end }}
{{- end -}}

{{/* Where pods may go. */}}
{{- define "rhumb.placement" -}}
{{- $values := .values | default dict -}}
{{- with $values.nodeSelector | default .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations | default .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity | default .root.Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "rhumb.spread" -}}
{{- with .root.Values.topologySpread }}
{{- if .enabled }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: {{ .topologyKey }}
    whenUnsatisfiable: {{ .whenUnsatisfiable }}
    labelSelector:
      matchLabels:
        {{- include "rhumb.selector" $ | nindent 8 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The template of the pods of a stage or of the conductor. In: root, component, command, args, values, hasState, graceSeconds. */}}
{{- define "rhumb.pod" -}}
{{- $parts := dict "root" .root "component" .component "user" .component "hasState" .hasState "values" .values -}}
metadata:
  labels:
    {{- include "rhumb.selector" $parts | nindent 4 }}
    {{- with .root.Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/config: {{ include "rhumb.checksum" .root }}
    {{- with .root.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- if eq .component "conductor" }}
  serviceAccountName: {{ include "rhumb.fullname" .root }}-conductor
  automountServiceAccountToken: true
  {{- else }}
  automountServiceAccountToken: false
  {{- end }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .graceSeconds }}
  securityContext:
    {{- include "rhumb.podSecurity" . | nindent 4 }}
  {{- include "rhumb.placement" $parts | nindent 2 }}
  {{- include "rhumb.spread" $parts | nindent 2 }}
  containers:
    - name: {{ .component }}
      image: {{ include "rhumb.image" .root | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      command: {{ toJson .command }}
      args: {{ toJson .args }}
      # Where `rhumb` looks for pipeline.yaml: commands in this pod need no arguments to find the crawl.
      workingDir: /etc/rhumb
      {{- with include "rhumb.env" $parts | trim }}
      env:
        {{- . | nindent 8 }}
      {{- end }}
      ports:
        - {name: metrics, containerPort: 9100}
      # The last line of the log says why a program ended: it is shown by `kubectl describe pod`.
      terminationMessagePolicy: FallbackToLogsOnError
      startupProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 1
        failureThreshold: 120
        timeoutSeconds: 2
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 10
        failureThreshold: 6
        timeoutSeconds: 2
      readinessProbe:
        httpGet: {path: /readyz, port: metrics}
        periodSeconds: 2
        failureThreshold: 2
        timeoutSeconds: 2
      securityContext:
        {{- include "rhumb.containerSecurity" . | nindent 8 }}
      resources:
        {{- toYaml .values.resources | nindent 8 }}
      volumeMounts:
        {{- include "rhumb.mounts" $parts | nindent 8 }}
  volumes:
    {{- include "rhumb.volumes" $parts | nindent 4 }}
{{- end -}}


{{/* The claim of an instance. Its labels are those of the selector: a StatefulSet cannot change them later. */}}
{{- define "rhumb.claim" -}}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
  labels:
    {{- include "rhumb.selector" .parts | nindent 4 }}
spec:
  accessModes: [ReadWriteOnce]
  {{- with .storage.className }}
  storageClassName: {{ . }}
  {{- end }}
  resources:
    requests:
      storage: {{ .storage.size }}
{{- end -}}
