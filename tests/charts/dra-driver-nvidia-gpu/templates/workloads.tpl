{{- if not .Values.gpuResourcesEnabledOverride }}
{{- fail "gpuResourcesEnabledOverride must be true" }}
{{- end }}
{{- range list "gpu" "mig" }}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: {{ . }}.nvidia.com
spec:
  selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == '{{ . }}'"}}]
{{- end }}
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .Release.Name }}-kubelet-plugin
  labels: &plugin {app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name }}}
spec:
  selector: {matchLabels: *plugin}
  template:
    metadata: {labels: *plugin}
    spec:
      imagePullSecrets: {{ .Values.imagePullSecrets | toJson }}
      nodeSelector: {{ .Values.kubeletPlugin.nodeSelector | toJson }}
      tolerations: {{ .Values.kubeletPlugin.tolerations | toJson }}
      {{- with .Values.kubeletPlugin.affinity }}
      affinity: {{ . | toJson }}
      {{- end }}
      containers:
        - name: gpus
          image: "{{ .Values.image.repository }}:v{{ .Chart.AppVersion }}"
          env: [{name: NVIDIA_DRIVER_ROOT, value: {{ .Values.nvidiaDriverRoot }}}]
