//go:build !soak

package sim

// The number of cases that are compared with the forecast.
const rankForecasts, liveForecasts, scaleForecasts = 2, 3, 1
