package upstream

// RelayLook is how often a stream is looked at.
const RelayLook = relayLook
