// Package keyed has what both trees do with their keyed hashes.
package keyed
