package ingress

// Busy returns the number of connections that fasthttp has, with its buffers.
func (s *Server) Busy() int { return int(s.http.GetCurrentConcurrency()) }
