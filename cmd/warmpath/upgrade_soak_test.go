//go:build soak

package main

const (
	upgrades       = 5
	upgradeClients = 48
	upgradeAnswers = 2000
	upgradeRate    = 500 // requests a second
)
