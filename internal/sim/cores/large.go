package cores

import (
	"strconv"
	"time"

	"github.com/regentd/regent/internal/core"
)

// Large is what became of a large simulation.
type Large struct {
	Virtual  time.Duration // how long it ran, by its own time
	Requests int           // to the store
	Steps    int           // of all cores
	Work     int           // of the largest step: see core.Spent
	Effects  int           // of the largest step
}

const (
	groupSize = 10 // candidates for each election
	largeRun  = 90 * time.Second
)

// RunLarge simulates a fleet: each election has ten candidates, and each member campaigns in one. A tenth of the
// leaders crashes at second 20, another tenth freezes for a lease, and nothing else goes wrong. In the end every
// election must be led, and none by two at any time. A notification reaches the candidates of its election alone:
// which of the others subscribe is a matter of the store.
func (r *Runner) RunLarge(members int, seed uint64) (Large, error) {
	s := &r.sim
	s.reset(seed, nil)
	s.group = groupSize
	s.cfg = fleet()
	s.faults = faults{over: true}
	s.end = largeRun
	for i := range members / groupSize {
		s.elect("election" + strconv.Itoa(i))
		s.store.register(s.names[i]).place = i
	}

	for i := range members / groupSize * groupSize {
		cfg := s.cfg
		cfg.ID = "m" + strconv.Itoa(i)
		cfg.StartDelay = s.between(0, cfg.StartDelayMax)
		cfg.Phase = s.rng.Float64()
		p := s.add(cfg)
		p.first = i / groupSize
		p.elections = 1
		p.register.place = p.first
		p.rate = 1 + (s.rng.Float64()*2-1)*0.001
		p.offset = s.between(0, time.Hour)
		s.after(0, p.start)
	}

	s.at(20*time.Second, s.disturbLeaders)
	s.queue.push(s.now, event{kind: inspectEvent})
	s.loop()
	if s.err == nil {
		s.checkEnd()
	}

	_, err := s.result(seed)
	return Large{s.now, s.store.requests, s.steps, s.spent, s.most}, err
}

// disturbLeaders crashes a tenth of the leaders for good, and freezes another tenth.
func (s *sim) disturbLeaders() {
	for i := range s.names {
		for _, p := range s.candidates(i) {
			switch {
			case !p.leads(i):
			case i%10 == 0:
				p.crash()
			case i%10 == 1:
				p.freeze(s.cfg.LeaseDuration)
			}
		}
	}
}

// fleet returns the durations of the fleet profile.
func fleet() core.Config {
	cfg := profile()
	cfg.LeaseDuration = 20 * time.Second
	cfg.HeartbeatInterval = 5 * time.Second
	cfg.RenewInterval = 5 * time.Second
	cfg.WorkerTimeout = 20 * time.Second
	cfg.StartDelayMax = 5 * time.Second
	return cfg
}
