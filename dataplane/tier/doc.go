// Package tier is being written.
package tier
