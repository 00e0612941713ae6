//go:build soak

package sim

// The number of cases that are compared with the forecast.
const rankForecasts, liveForecasts, scaleForecasts = 5, 7, 2
