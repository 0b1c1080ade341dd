{{- $places := dict "composable-dra-driver" "composable-dra" "dds-controller-manager" "composable-dra" "composable-resource-operator-controller-manager" "composable-resource-operator-system" }}
{{- $images := dict "composable-dra-driver" "composable-dra-driver" "dds-controller-manager" "dynamic-device-scaler" "composable-resource-operator-controller-manager" "composable-resource-operator" }}
{{- range $namespace := list "composable-dra" "composable-resource-operator-system" }}
---
apiVersion: v1
kind: Namespace
metadata:
  name: {{ $namespace }}
{{- end }}
{{- range $name, $namespace := $places }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
spec:
  replicas: 1
  selector:
    matchLabels:
      app: {{ $name }}
  template:
    metadata:
      labels:
        app: {{ $name }}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
        - name: manager
          {{- with (get $.Values (get $images $name)).common.image }}
          image: {{ printf "%s/%s:%s" .registry .repository .tag | quote }}
          {{- end }}
          {{- if eq $name "composable-resource-operator-controller-manager" }}
          env:
            - name: FTI_CDI_ENDPOINT
              value: "{{ (first $.Values.global.fti_cdi.hostAliases).ip }}:443"
          {{- end }}
{{- end }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: composable-dra-dds
  namespace: composable-dra
data:
  device-info: {{ .Values.global.common.configData.deviceInfo | quote }}
---
apiVersion: v1
kind: Secret
metadata:
  name: composable-dra-secret
  namespace: composable-dra
data:
  {{- range $key, $value := .Values.global.fti_cdi.credentials }}
  {{ $key }}: {{ $value | b64enc | quote }}
  {{- end }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: composable-resource-operator-validating-webhook-configuration
webhooks:
  - name: vcomposabilityrequest.kb.io
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Fail
    clientConfig:
      service:
        name: composable-resource-operator-webhook-service
        namespace: composable-resource-operator-system
        path: /validate
    rules:
      - apiGroups: [cro.hpsys.ibm.ie.com]
        apiVersions: [v1alpha1]
        operations: [CREATE, UPDATE]
        resources: [composabilityrequests]
