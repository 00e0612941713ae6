// Package keyed has what the keyed hashes of both trees are made of.
package keyed
