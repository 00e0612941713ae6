// Package replica is being written.
package replica
