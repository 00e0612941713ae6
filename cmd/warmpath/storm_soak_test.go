//go:build soak

package main

// The size of a storm of faults, the number of storms over whole workers, and the requests in flight
// at a worker's death.
const stormRequests, storms, deathRequests = 3000, 10, 200
