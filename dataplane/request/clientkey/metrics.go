package clientkey

import "github.com/prometheus/client_golang/prometheus"

var (
	descRequests = describe("requests_total", "Requests that a client's key was let in with, by the key's name.")
	descInFlight = describe("in_flight", "Requests under way, by the name of their key.")
	descTokens   = describe("tokens_total", "Tokens of prompts and answers, by the name of the key.", "kind")
	descRefused  = describe("refused_total", "Requests beyond a limit of their key, by its name and the limit.", "limit")
	descUp       = prometheus.NewDesc("warmpath_client_jwks_up", "1 while the keys of --client-jwks can be read.", nil, nil)
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("warmpath_client_key_"+name, help, append([]string{"key"}, labels...), nil)
}

var _ prometheus.Collector = (*Keys)(nil)

// Describe implements prometheus.Collector.
func (k *Keys) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRequests, descInFlight, descTokens, descRefused, descUp} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. The series are those of the names in the file; all names
// of tokens have one, since an issuer makes any number of them.
func (k *Keys) Collect(ch chan<- prometheus.Metric) {
	each := func(name string, c Counts) {
		send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, kind, value, append([]string{name}, labels...)...)
		}
		send(descRequests, prometheus.CounterValue, float64(c.Requests))
		send(descInFlight, prometheus.GaugeValue, float64(c.InFlight))
		send(descTokens, prometheus.CounterValue, float64(c.PromptTokens), "prompt")
		send(descTokens, prometheus.CounterValue, float64(c.Completion), "completion")
		for _, reason := range Reasons() {
			send(descRefused, prometheus.CounterValue, float64(c.Refused[reason]), reason.String())
		}
	}
	for _, key := range k.All() {
		each(key.Name, key.Counts())
	}
	if k.tokens != nil {
		each(tokenNames, k.tokens.counts())
		up := 0.0
		if k.tokens.verifier.Up() {
			up = 1
		}
		ch <- prometheus.MustNewConstMetric(descUp, prometheus.GaugeValue, up)
	}
}
