// Package node is being written.
package node
