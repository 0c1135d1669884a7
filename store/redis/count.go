package redis

import "github.com/regentd/regent/driver"

var _ driver.Counter = (*Store)(nil)

// Requests implements [driver.Counter]: round trips to the server, by what they ask for. Many registers may share one.
func (s *Store) Requests() map[string]uint64 { return s.sent.Requests() }

// count counts a round trip with calls of a script.
func (s *Store) count(sc script) {
	switch sc.sha {
	case s.swap.sha:
		s.sent.Add("swap")
	case s.remove.sha:
		s.sent.Add("remove")
	default:
		s.sent.Add("get")
	}
}
