// Package discover is being written.
package discover
