//go:build !soak

package main

const (
	upgrades       = 1
	upgradeClients = 9
	upgradeAnswers = 150 // before and after each
	upgradeRate    = 0   // as many as the machine does
)
