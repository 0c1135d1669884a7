package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/plain"
	"github.com/regentd/regent/driver"
)

const (
	// scratch is the register that the checks write.
	scratch = driver.Reserved + "doctor"

	reads   = 60
	writes  = 30
	rounds  = 6
	writers = 32 // in each round of the race
)

// Latency is what requests to a store took.
type Latency struct{ ReadP50, ReadP99, WriteP50, WriteP99 time.Duration }

// Measure measures reads and writes, one at a time.
func Measure(ctx context.Context, store driver.Store) (Latency, error) {
	var l Latency
	record, err := current(ctx, store)
	if err != nil {
		return l, err
	}

	var took []time.Duration
	for range writes {
		began := time.Now()
		record.Nonce++
		if record, err = store.Swap(ctx, record); err != nil {
			return l, fmt.Errorf("write the scratch register: %w", err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	l.WriteP50, l.WriteP99 = quantile(took, 0.5), quantile(took, 0.99)

	took = nil
	for range reads {
		began := time.Now()
		if _, err := store.Get(ctx, scratch); err != nil {
			return l, fmt.Errorf("read the scratch register: %w", err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	l.ReadP50, l.ReadP99 = quantile(took, 0.5), quantile(took, 0.99)

	return l, nil
}

// current returns the scratch register, or one that was never written.
func current(ctx context.Context, store driver.Store) (driver.Record, error) {
	record, err := store.Get(ctx, scratch)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return driver.Record{Name: scratch, Nonce: 1, Duration: time.Minute}, nil
	case err != nil:
		return record, fmt.Errorf("read the scratch register: %w", err)
	}

	return record, nil
}

// Remove removes the scratch register, where the store can.
func Remove(ctx context.Context, store driver.Store) error {
	remover, ok := store.(driver.Remover)
	if !ok {
		return nil
	}

	record, err := store.Get(ctx, scratch)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return remover.Remove(ctx, record)
}

// ErrNotAtomic means that a conditional write of the store is none.
var ErrNotAtomic = errors.New("conditional writes are not atomic")

// Race lets 32 writers write one revision of the scratch register at once, several times: one of them may win. It
// returns how many swaps were answered, and an [ErrNotAtomic] if two have won, or the store shows another record than
// that of the winner.
func Race(ctx context.Context, store driver.Store) (answered int, err error) {
	for round := range rounds {
		before, err := current(ctx, store)
		if err != nil {
			return answered, err
		}

		won, lost := compete(ctx, store, before)
		answered += len(won) + lost
		after, err := store.Get(ctx, scratch)
		switch {
		case len(won) > 1:
			return answered, fmt.Errorf("%w: in round %d %d of %d writers of one revision have won", ErrNotAtomic,
				round+1, len(won), writers)
		case err != nil:
			return answered, err
		case len(won) == 1 && lost == writers-1 && after.Rev != won[0].Rev:
			return answered, fmt.Errorf("%w: in round %d the store shows another record than the winner's",
				ErrNotAtomic, round+1)
		}
	}

	return answered, nil
}

// compete lets writers write one revision at once. It returns the records of those who have won, and how many have
// lost. The rest had no answer.
func compete(ctx context.Context, store driver.Store, before driver.Record) (won []driver.Record, lost int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range writers {
		all.Go(func() {
			record := before
			record.Nonce += uint64(i) + 1
			<-begin

			got, err := store.Swap(ctx, record)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won = append(won, got)
			case errors.Is(err, driver.ErrConflict):
				lost++
			}
		})
	}

	close(begin)
	all.Wait()
	return won, lost
}

// CheckStore measures the store and lets writers race. It returns an error if the store cannot be measured.
func (r *Report) CheckStore(ctx context.Context, store driver.Store, c regent.Config) error {
	l, err := Measure(ctx, store)
	if err != nil {
		r.Add("latency", Wrong, Remedy(err, "see that this user may read and write the store"), "%v", plain.Error(err))
		return err
	}

	r.Add("latency", OK, "", "read p50 %s, p99 %s; write p50 %s, p99 %s", ms(l.ReadP50), ms(l.ReadP99), ms(l.WriteP50),
		ms(l.WriteP99))
	r.Checks[len(r.Checks)-1].Figures = map[string]float64{
		"readP50Ms": milliseconds(l.ReadP50), "readP99Ms": milliseconds(l.ReadP99),
		"writeP50Ms": milliseconds(l.WriteP50), "writeP99Ms": milliseconds(l.WriteP99),
	}

	r.checkRace(ctx, store)
	r.checkPaused(ctx, store)
	push := r.checkNotifications(ctx, store, c)
	t := Compute(c, l.ReadP99, l.WriteP99, push)
	r.Takeover = &t
	r.checkMargin(t, l, c)
	return nil
}

// checkRace lets writers race.
func (r *Report) checkRace(ctx context.Context, store driver.Store) {
	answered, err := Race(ctx, store)
	switch {
	case errors.Is(err, ErrNotAtomic):
		r.Add("atomic writes", Wrong, "do not use this store: two members could lead at once", "%v", err)
	case err != nil:
		r.Add("atomic writes", Wrong, Remedy(err, "see that the store stays up, and run it again"),
			"the race was not finished: %v", plain.Error(err))
	case answered < rounds*writers/2:
		r.Add("atomic writes", Warning, "run it again when the store is less busy",
			"only %d of %d writes of the race were answered", answered, rounds*writers)
	default:
		r.Add("atomic writes", OK, "", "%d races of %d writers on one register: one winner each", rounds, writers)
	}
}

// maxPaused is how many paused elections are named.
const maxPaused = 5

// checkPaused warns of elections that nobody claims until they are resumed.
func (r *Report) checkPaused(ctx context.Context, store driver.Store) {
	var paused []string
	vacant := map[string]bool{}
	for l, err := range store.List(ctx, "") {
		if err == nil && l.Paused && !strings.HasPrefix(l.Name, driver.Reserved) {
			paused = append(paused, l.Name)
			vacant[l.Name] = l.Vacant()
		}
	}

	slices.SortFunc(paused, func(a, b string) int { // those without a leader first
		if vacant[a] != vacant[b] {
			return cmp.Compare(truth(vacant[b]), truth(vacant[a]))
		}
		return cmp.Compare(a, b)
	})
	for _, name := range paused[:min(len(paused), maxPaused)] {
		v, text := Warning, "election %s is paused: nobody takes over"
		if vacant[name] {
			v, text = Wrong, "election %s is paused, and nobody leads it"
		}
		r.Add("elections", v, "'regent resume "+name+"' ends the pause", text, name)
	}
	if more := len(paused) - maxPaused; more > 0 {
		r.Add("elections", Warning, "", "and %d more elections are paused", more)
	}
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// checkMargin checks that a heartbeat has time to be late.
func (r *Report) checkMargin(t Takeover, l Latency, c regent.Config) {
	text := fmt.Sprintf("a heartbeat may take %.1f s longer than it did before the leader loses its lease of %v",
		t.MarginMs/1000, c.LeaseDuration)
	switch {
	case t.MarginMs <= 0:
		r.Add("lease", Wrong, "raise leaseDuration, or use a faster store",
			"the slowest write took %s: a leader would lose its lease of %v", ms(l.WriteP99), c.LeaseDuration)
	case t.MarginMs < 5*milliseconds(l.WriteP99):
		r.Add("lease", Warning, "raise leaseDuration, or use a faster store", "%s", text)
	default:
		r.Add("lease", OK, "", "%s", text)
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
