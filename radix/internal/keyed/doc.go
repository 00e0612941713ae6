// Package keyed has the common parts of the keyed hashes of both trees.
package keyed
