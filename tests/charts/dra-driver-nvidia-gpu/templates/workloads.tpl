{{- if not .Values.gpuResourcesEnabledOverride }}
{{- fail "gpuResourcesEnabledOverride must be true" }}
{{- end }}
{{- $name := .Values.nameOverride | default .Chart.Name }}
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
  labels:
    app.kubernetes.io/name: {{ $name }}
    app.kubernetes.io/instance: {{ .Release.Name }}
spec:
  selector:
    matchLabels:
      {{ $name }}-component: kubelet-plugin
  template:
    metadata:
      labels:
        app.kubernetes.io/name: {{ $name }}
        app.kubernetes.io/instance: {{ .Release.Name }}
        {{ $name }}-component: kubelet-plugin
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
