package regent

// Renew sends one heartbeat of what keeps a held election alive: the member's own register, or the seat's own lease. It is what the
// member's loop does when a heartbeat is due, and must not run beside it: give the member an interval that never comes.
func Renew(m *Member, election string) error {
	m.mu.Lock()
	e := m.engine
	b := e.self
	if t := e.seats[election].term; t.beat != nil {
		b = t.beat
	}
	m.mu.Unlock()
	return e.renew(e.ctx, b, e.clock.Now())
}
