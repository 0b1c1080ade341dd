{{- range list "ComposabilityRequest" "ComposableResource" }}
{{- $plural := eq . "ComposabilityRequest" | ternary "composabilityrequests" "composableresources" }}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: {{ $plural }}.cro.hpsys.ibm.ie.com
spec:
  group: cro.hpsys.ibm.ie.com
  scope: Cluster
  names:
    plural: {{ $plural }}
    singular: {{ . | lower }}
    kind: {{ . }}
    listKind: {{ . }}List
  versions:
    - name: v1alpha1
      served: true
      storage: true
      subresources:
        status: {}
      schema:
        openAPIV3Schema:
          type: object
          x-kubernetes-preserve-unknown-fields: true
{{- end }}
