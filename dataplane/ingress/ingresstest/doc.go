// Package ingresstest runs servers of package ingress in tests.
package ingresstest
