---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-worker-conf
data:
  nfd-worker.conf: {{ .Values.worker.config | toYaml | quote }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}-master
  labels: &master {app.kubernetes.io/name: {{ .Chart.Name }}, role: master}
spec:
  selector: {matchLabels: *master}
  template:
    metadata: {labels: *master}
    spec:
      imagePullSecrets: {{ .Values.imagePullSecrets | toJson }}
      containers: [{name: master, image: "{{ .Values.image.repository }}:{{ .Chart.AppVersion }}"}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .Release.Name }}-worker
  labels: &worker {app.kubernetes.io/name: {{ .Chart.Name }}, role: worker}
spec:
  selector: {matchLabels: *worker}
  template:
    metadata: {labels: *worker}
    spec:
      imagePullSecrets: {{ .Values.imagePullSecrets | toJson }}
      tolerations: {{ .Values.worker.tolerations | toJson }}
      containers: [{name: worker, image: "{{ .Values.image.repository }}:{{ .Chart.AppVersion }}"}]
