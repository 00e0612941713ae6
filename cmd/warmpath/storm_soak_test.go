//go:build soak

package main

// The size of a storm of faults, and the number of storms over whole workers.
const stormRequests, storms = 3000, 10
