{{- $name := .Values.fullnameOverride | default (printf "%s-%s-%s" .Release.Name .Values.cloudProvider .Chart.Name) }}
{{- /* as in the real chart: one of these is required, otherwise there is no Deployment */}}
{{- if or .Values.autoDiscovery.clusterName .Values.autoDiscovery.namespace .Values.autoDiscovery.labels .Values.autoscalingGroups }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ .Release.Namespace }}
spec:
  replicas: 1
  selector:
    matchLabels:
      app.kubernetes.io/instance: {{ .Release.Name }}
  template:
    metadata:
      annotations: {{ toJson .Values.podAnnotations }}
      labels:
        app.kubernetes.io/instance: {{ .Release.Name }}
    spec:
      terminationGracePeriodSeconds: 0
      priorityClassName: {{ .Values.priorityClassName }}
      nodeSelector: {{ toJson .Values.nodeSelector }}
      tolerations: {{ toJson .Values.tolerations }}
      imagePullSecrets:
{{- range .Values.image.pullSecrets }}
        - name: {{ . }}
{{- end }}
      containers:
        - name: cluster-autoscaler
          image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
          command:
            - ./cluster-autoscaler
            - --cloud-provider={{ .Values.cloudProvider }}
            - --namespace={{ .Release.Namespace }}
{{- /* the real chart has --cloud-config from cloudConfigPath for some cloud providers only, and this is none of them */}}
{{- range $key, $value := .Values.extraArgs }}
{{- if not (kindIs "invalid" $value) }}
            - --{{ $key | mustRegexFind "^[^_]+" }}={{ $value }}
{{- else }}
            - --{{ $key | mustRegexFind "^[^_]+" }}
{{- end }}
{{- end }}
{{- if .Values.extraVolumeMounts }}
          volumeMounts:
{{ toYaml .Values.extraVolumeMounts | indent 12 }}
{{- end }}
{{- if .Values.extraVolumes }}
      volumes:
{{ toYaml .Values.extraVolumes | indent 8 }}
{{- end }}
{{- end }}
{{- range .Values.extraObjects }}
---
{{ tpl (toYaml .) $ }}
{{- end }}
