// Package cluster is being written.
package cluster
