// Package link is being written.
package link
