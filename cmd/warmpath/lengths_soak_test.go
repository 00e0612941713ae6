//go:build soak

package main

import "time"

// Lengths of histories for `make soak`; lengths_quick_test.go says what they are of.
const (
	stormRequests = 3000
	storms        = 10
	stormRests    = 40

	chaosLasts = 5 * time.Second
	chaosCalm  = 120

	upgrades       = 5
	upgradeClients = 48
	upgradeAnswers = 2000
	upgradeRate    = 500

	reloads       = 60
	reloadAnswers = 25
	pairQuestions = 60
	userMinutes   = "2m"
)
