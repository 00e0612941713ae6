package router

import "github.com/warmpath/warmpath/dataplane/router/config"

// Config holds the settings of a router; see package config.
type Config = config.Config
