{{- define "warmpath.name" -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{- end }}
{{- define "warmpath.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end }}
{{- define "warmpath.labels" -}}
app.kubernetes.io/name: warmpath
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- define "warmpath.selector" -}}
app.kubernetes.io/name: warmpath
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "warmpath.workersNamespace" -}}{{ .Values.router.workers.namespace | default .Release.Namespace }}{{- end }}
{{- /* The pod's own settings come last: what the chart needs wins. */ -}}
{{- define "warmpath.routerConfig" -}}
{{- $own := dict
  "listen" "0.0.0.0:8000"
  "operator-listen" (ternary "0.0.0.0:8001" "127.0.0.1:8001" (ne .Values.router.secretName ""))
  "discover" (list (printf "kubernetes:%s/%s" (include "warmpath.workersNamespace" .) .Values.router.workers.service))
  "drain-timeout" (printf "%ds" (int .Values.router.drainSeconds)) -}}
{{- mergeOverwrite (deepCopy .Values.router.config) $own | toYaml -}}
{{- end }}
