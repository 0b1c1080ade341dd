{{- if and .Values.clusterPolicy.deployCR .Values.gpuCluster.deployCR }}
{{- fail "a ClusterPolicy and a GPUCluster exclude each other" }}
{{- end }}
{{- if and .Values.gpuCluster.deployCR .Values.driver.enabled (not .Values.driver.nvidiaDriverCRD.enabled) }}
{{- fail "with a GPUCluster the driver needs driver.nvidiaDriverCRD.enabled" }}
{{- end }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: gpu-operator
  labels: &operator {app.kubernetes.io/component: gpu-operator, app: gpu-operator}
spec:
  selector: {matchLabels: *operator}
  template:
    metadata: {labels: *operator}
    spec:
      containers: [{name: gpu-operator, image: "{{ .Values.operator.repository }}/{{ .Values.operator.image }}:{{ .Chart.AppVersion }}"}]
{{- if .Values.clusterPolicy.deployCR }}
---
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata:
  name: cluster-policy
spec: {{ omit .Values "nfd" "clusterPolicy" "gpuCluster" "draDriver" | toJson }}
{{- end }}
{{- if .Values.gpuCluster.deployCR }}
---
apiVersion: nvidia.com/v1alpha1
kind: GPUCluster
metadata:
  name: gpu-cluster
spec: {draDriver: {{ .Values.draDriver | toJson }}}
{{- end }}
