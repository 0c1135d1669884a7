package regent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Token identifies the term that work was sent in. It travels with the work, and a [Fence] judges it.
type Token struct {
	Epoch uint64 // the term's number
	Term  string // the term's incarnation, which tells two terms with one epoch apart; empty if it is not known
}

// Fence is what a receiver of a leader's work keeps, to refuse what a former one sent. The zero Fence works; one with a Path remembers
// over restarts. It is safe for concurrent use, and must not be copied after its first use.
//
// An epoch is a token, not a credential: whoever can send can send a large one. Authenticate the sender first, and set Confirm.
type Fence struct {
	// Path is a file that keeps the highest epoch. It is written, and synced, before a new epoch is first admitted.
	Path string
	// Confirm is asked before a jump of more than one epoch is believed, if it is set: against the store, say.
	Confirm func(epoch uint64) error
	// Grace is how long idempotent work of the last epoch is still taken: see AdmitLate.
	Grace time.Duration
	// Off admits everything.
	Off bool
	// OnLate is told of work that was taken within the grace.
	OnLate func(epoch, newest uint64, age time.Duration)

	highest atomic.Uint64
	mu      sync.Mutex
	loaded  bool
	learned time.Time // when highest was learned, by this process
	stale   atomic.Uint64
	late    atomic.Uint64
	drifts  *atomic.Uint64 // the member's count, if the fence is a member's
}

// StaleError says that work was refused because its epoch has been superseded.
type StaleError struct {
	Epoch  uint64 // of the work
	Newest uint64 // the one that beat it
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("epoch %d is stale: epoch %d has been seen", e.Epoch, e.Newest)
}

// Admit returns nil if the epoch is the highest seen so far, or higher; else a [StaleError]. The accepted path is one atomic load.
func (f *Fence) Admit(epoch uint64) error {
	if epoch != 0 && epoch == f.highest.Load() {
		return nil
	}
	return f.admit(epoch)
}

func (f *Fence) admit(epoch uint64) error {
	if f.Off {
		return nil
	}
	if epoch == 0 {
		return errors.New("epoch 0: every term has an epoch from 1 on")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for confirmed := false; ; {
		highest, err := f.load()
		switch {
		case err != nil:
			return err
		case epoch < highest:
			f.stale.Add(1)
			if f.drifts != nil {
				f.drifts.Add(1)
			}
			return &StaleError{epoch, highest}
		case epoch == highest:
			return nil
		case confirmed || epoch == highest+1 || f.Confirm == nil:
			return f.raise(epoch)
		}
		// Asked without the lock, since it may take its time, or ask somebody who waits for this fence.
		f.mu.Unlock()
		err = f.Confirm(epoch)
		f.mu.Lock()
		if err != nil {
			return fmt.Errorf("epoch %d, after %d, is not confirmed: %w", epoch, highest, err)
		}
		confirmed = true
	}
}

// AdmitLate is Admit with a grace for work that crossed a change of leaders on its way. Work of the last epoch is still taken if it is
// idempotent, was dispatched no longer ago than the grace, and this fence learned of the new epoch no longer ago than that.
func (f *Fence) AdmitLate(epoch uint64, dispatched time.Time, idempotent bool) error {
	err := f.Admit(epoch)
	var stale *StaleError
	if !errors.As(err, &stale) || !idempotent || epoch+1 != stale.Newest {
		return err
	}
	f.mu.Lock()
	since := time.Since(f.learned)
	f.mu.Unlock()
	age := time.Since(dispatched)
	// Work that claims to come from the future says nothing about its age.
	if age < 0 || age > f.Grace || since > f.Grace {
		return err
	}
	f.late.Add(1)
	if f.drifts != nil {
		f.drifts.Add(^uint64(0)) // it was not refused after all
	}
	if f.OnLate != nil {
		f.OnLate(epoch, stale.Newest, age)
	}
	return nil
}

// Learn raises the fence without admitting anything: a notice of a new leader has come.
func (f *Fence) Learn(epoch uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	highest, err := f.load()
	if err != nil || epoch <= highest {
		return err
	}
	return f.raise(epoch)
}

// Highest returns the highest epoch seen.
func (f *Fence) Highest() (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.load()
}

// Refused returns how often the fence has refused an epoch as stale.
func (f *Fence) Refused() uint64 { return f.stale.Load() - f.late.Load() }

// Late returns how often the fence has taken work within the grace.
func (f *Fence) Late() uint64 { return f.late.Load() }

// load reads the file once. The mutex is held.
func (f *Fence) load() (uint64, error) {
	if f.loaded || f.Path == "" {
		return f.highest.Load(), nil
	}
	b, err := os.ReadFile(f.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("read fence: %w", err)
	}
	if err == nil {
		epoch, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read fence %s: %w: it should hold one number, the highest epoch seen", f.Path, err)
		}
		f.highest.Store(epoch)
	}
	f.loaded = true
	return f.highest.Load(), nil
}

// raise keeps a higher epoch, on disk first. The mutex is held.
func (f *Fence) raise(epoch uint64) error {
	if f.Path != "" {
		if err := writeSynced(f.Path, strconv.AppendUint(nil, epoch, 10)); err != nil {
			return fmt.Errorf("write fence: %w", err)
		}
	}
	f.highest.Store(epoch)
	f.learned = time.Now()
	return nil
}

// writeSynced replaces a file so that a crash leaves the old content or the new.
func writeSynced(path string, b []byte) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
