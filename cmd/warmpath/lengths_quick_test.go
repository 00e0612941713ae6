//go:build !soak

package main

import "time"

// Lengths of histories for `make test`; lengths_soak_test.go has those of `make soak`.
const (
	stormRequests = 100
	storms        = 2  // over whole workers
	stormRests    = 15 // requests at rest after each of them

	chaosLasts = time.Second
	chaosCalm  = 24 // requests of each calm

	upgrades       = 1
	upgradeClients = 9
	upgradeAnswers = 100 // before and after each
	upgradeRate    = 0   // requests a second: as many as the machine does

	reloads       = 24 // each kind of change four times
	reloadAnswers = 10 // after each
	pairQuestions = 20
	userMinutes   = "1m" // of the replay of users
)
