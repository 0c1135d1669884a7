package regent

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Fence is kept by a receiver of a leader's work, and refuses work of former leaders. The zero
// Fence works; one with a Path remembers over restarts. A Fence is safe for concurrent use, and
// must not be copied after its first use.
//
// A fence refuses every epoch lower than the highest that it has seen. It also remembers which term
// it admitted for that epoch, and refuses another term with the same number: a store that has
// forgotten writes can give one number to two terms. A token without a Term is compared by its
// epoch alone, as long as the fence knows no term for that epoch. The first token with a Term binds
// the fence to it; from then on a token with the same epoch and no Term is refused.
//
// A token is not a credential: whoever can send can send a large one. Authenticate the sender
// first, and set Confirm.
type Fence struct {
	// Path names a file that keeps the highest token. It is written, and synced, before a new epoch
	// or a new term is first admitted. A lock file beside it, Path.lock, has a raise read the file
	// and write it in one step, so that two processes on one Path (an overlapping restart) never
	// lower it: a raise that finds a higher epoch in the file is refused.
	//
	// The file is read again with the first work that comes a second or more after the last
	// reading. So of two processes on one Path, one may still admit its epoch for up to a second
	// after the other one has admitted a higher one; a process that is stopped (SIGSTOP) within
	// that second may do so until its timer has run after it goes on. Reading the file for each
	// piece of work would close this gap, and cost several system calls where a few nanoseconds do.
	//
	// The lock is flock(2). On systems without it (Windows, Plan 9, AIX, Solaris), and on file
	// systems that do not support it, a raise reads the file before it writes, but two that meet
	// between the two may still lower it: do not let two processes share a Path there.
	Path string
	// Confirm, if it is set, is called before an epoch is admitted that is more than one above the
	// highest. An error refuses the token. Use it to compare the epoch with the store.
	Confirm func(Token) error
	// Grace is how long idempotent work of the last epoch is still admitted: see AdmitLate.
	Grace time.Duration
	// Off admits everything.
	Off bool
	// OnLate is called with late work that was admitted within the grace.
	OnLate func(epoch, newest uint64, age time.Duration)

	key      atomic.Uint64         // of admitted, for the accepted path; 0 if that is nil
	admitted atomic.Pointer[Token] // the highest; nil if there is none yet, or if the file is to be read again

	mu       sync.Mutex
	highest  Token
	previous Token     // the highest before the last epoch was learned: the one that has a grace
	learned  time.Time // when this process learned the highest epoch; zero if another one did
	stale    atomic.Uint64
	late     atomic.Uint64
	drifts   *atomic.Uint64 // the member's count, if the fence is a member's

	unwritable atomic.Pointer[error] // why the file could not be written
}

// StaleError reports that work was refused because its term has been superseded: a higher epoch has
// been seen, or the same epoch of another term.
type StaleError struct {
	Epoch      uint64 // of the work
	Term       string // of the work; empty if it named none
	Newest     uint64 // the epoch that the work was refused for; the same as Epoch if that belongs to another term
	NewestTerm string // the term that has it; empty if it is not known
}

func (e *StaleError) Error() string {
	switch {
	case e.Epoch != e.Newest:
		return fmt.Sprintf("epoch %d is stale: epoch %d has been seen", e.Epoch, e.Newest)
	case e.Term == "":
		return fmt.Sprintf("epoch %d is refused: it belongs to term %s, and the work names no term "+
			"(is its sender an older version?)", e.Epoch, e.NewestTerm)
	default:
		return fmt.Sprintf("epoch %d of term %s is refused: it belongs to term %s "+
			"(two terms have one epoch: has the store lost writes?)", e.Epoch, e.Term, e.NewestTerm)
	}
}

// Admit returns nil if the token is of the newest term that this fence has seen, or of a newer one;
// a [StaleError] if it is not; an [ErrInvalidToken] if no term can have it. Any other error reports
// that the file could not be read or written, or that a jump was not confirmed. The work must not
// be done unless the result is nil.
//
// The accepted path is one atomic load and one comparison, for a token of [NewToken] or
// [Term.Token].
func (f *Fence) Admit(t Token) error {
	if t.key != 0 && t.key == f.key.Load() {
		return nil
	}
	return f.admit(t)
}

func (f *Fence) admit(t Token) error {
	if f.Off {
		return nil
	}
	if h := f.admitted.Load(); h != nil && h.same(t) {
		return nil
	}
	if err := t.Validate(); err != nil {
		return err
	}

	jump, err := f.judge(t, f.Confirm == nil)
	if !jump {
		return err
	}

	// Confirm is called without the lock, since it may take long, or call somebody who waits for this
	// fence.
	if err := f.Confirm(t); err != nil {
		return fmt.Errorf("epoch %d is not confirmed: %w", t.Epoch, err)
	}
	_, err = f.judge(t, true)
	return err
}

// judge admits or refuses a token. It does neither if jump is true: the token is more than one
// epoch ahead, and has to be confirmed first.
func (f *Fence) judge(t Token, confirmed bool) (jump bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	highest, err := f.currentLocked()
	if err != nil {
		return false, err
	}

	switch t.against(highest) {
	case tokenStale:
		return false, f.refuseLocked(t)
	case tokenCurrent:
		return false, nil
	}
	if !confirmed && t.Epoch > highest.Epoch+1 {
		return true, nil
	}

	err = f.raiseLocked(t)
	if errors.As(err, new(*StaleError)) {
		return false, f.refuseLocked(t)
	}
	return false, err
}

// refuseLocked counts a refusal, and returns the error for it.
func (f *Fence) refuseLocked(t Token) error {
	f.stale.Add(1)
	if f.drifts != nil {
		f.drifts.Add(1)
	}
	return f.staleLocked(t)
}

func (f *Fence) staleLocked(t Token) error {
	return &StaleError{Epoch: t.Epoch, Term: t.Term, Newest: f.highest.Epoch, NewestTerm: f.highest.Term}
}

// AdmitLate is Admit with a grace for work that was on its way while the leader changed. Work of
// the epoch before the highest is still admitted if it is idempotent, was dispatched no longer ago
// than the grace, and this process learned of the new epoch no longer ago than that. Only one term
// of that epoch has the grace: the one that this fence admitted then. Another term with the highest
// epoch has none.
func (f *Fence) AdmitLate(t Token, dispatched time.Time, idempotent bool) error {
	err := f.Admit(t)
	var refused *StaleError
	if !idempotent || !errors.As(err, &refused) {
		return err
	}

	age := time.Since(dispatched)
	if !f.graces(t, age) {
		return err
	}

	f.late.Add(1)
	if f.drifts != nil {
		f.drifts.Add(^uint64(0)) // it was not refused after all
	}
	if f.OnLate != nil {
		f.OnLate(t.Epoch, refused.Newest, age)
	}
	return nil
}

// graces reports whether idempotent work of this age is admitted although its token is stale.
func (f *Fence) graces(t Token, age time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()

	// The age of work that was dispatched in the future, by the sender's clock, is not known.
	if age < 0 || age > f.Grace || time.Since(f.learned) > f.Grace {
		return false
	}
	if t.Epoch+1 != f.highest.Epoch || t.against(f.previous) == tokenStale {
		return false
	}

	f.previous = t // so that the grace, too, is for one term
	return true
}

// Learn raises the fence without admitting work: the caller has learned of a new leader. A token
// without a Term leaves open which term has the epoch. An older token is ignored. Another term with
// the highest epoch is a [StaleError].
func (f *Fence) Learn(t Token) error {
	if t.Epoch == 0 { // nobody has led yet
		return nil
	}
	if err := t.Validate(); err != nil {
		return err
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	highest, err := f.currentLocked()
	if err != nil {
		return err
	}

	switch {
	case t.Epoch < highest.Epoch, t.Epoch == highest.Epoch && t.Term == "":
		return nil
	case t.against(highest) == tokenStale:
		return f.staleLocked(t)
	case t.against(highest) == tokenCurrent:
		return nil
	default:
		return f.raiseLocked(t)
	}
}

// Highest returns the token of the newest term seen; the zero Token if there was none.
func (f *Fence) Highest() (Token, error) {
	if h := f.admitted.Load(); h != nil {
		return *h, nil
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	return f.currentLocked()
}

// Refused returns how many tokens the fence has refused as stale.
func (f *Fence) Refused() uint64 { return f.stale.Load() - f.late.Load() }

// Late returns how many pieces of late work the fence has admitted within the grace.
func (f *Fence) Late() uint64 { return f.late.Load() }

// currentLocked returns the highest token, from the file if that was not read for a while.
func (f *Fence) currentLocked() (Token, error) {
	if h := f.admitted.Load(); h != nil {
		return *h, nil
	}
	if f.Path == "" {
		return f.highest, nil
	}

	kept, err := readFence(f.Path)
	if err != nil {
		return Token{}, err
	}
	f.mergeLocked(kept)
	f.publishLocked()
	return f.highest, nil
}

// mergeLocked takes in what the file holds: this process or an earlier one has written it, or
// another one beside this.
func (f *Fence) mergeLocked(kept Token) {
	if kept.against(f.highest) != tokenNewer {
		return // the file may also have been removed
	}
	if kept.Epoch > f.highest.Epoch {
		f.previous = f.highest
		f.learned = time.Time{} // nobody here knows when that was
	}
	f.highest = kept
}

// raiseLocked keeps a newer token, and notes whether the file could be written. It returns a [StaleError] if the file
// shows that another process has seen a newer one.
func (f *Fence) raiseLocked(t Token) error {
	err := f.keepLocked(t)
	f.unwritable.Store(nil)
	if err != nil && !errors.As(err, new(*StaleError)) {
		f.unwritable.Store(&err)
	}

	return err
}

// Unwritable returns why the fence could not keep the newest token in its file; nil if it could. Work with that token
// is refused until it can.
// Unwritable does not wait for the file.
func (f *Fence) Unwritable() error {
	if err := f.unwritable.Load(); err != nil {
		return *err
	}

	return nil
}

// keepLocked keeps a newer token, on disk first.
func (f *Fence) keepLocked(t Token) error {
	if f.Path != "" {
		unlock, err := lockFence(f.Path)
		if err != nil {
			return err
		}
		defer unlock()

		kept, err := readFence(f.Path)
		if err != nil {
			return err
		}
		f.mergeLocked(kept)
		if t.against(f.highest) == tokenStale {
			f.publishLocked()
			return f.staleLocked(t)
		}
		if err := writeFence(f.Path, t); err != nil {
			return err
		}
	}

	if t.Epoch > f.highest.Epoch {
		f.previous = f.highest
		f.learned = time.Now()
	}
	f.highest = t
	f.publishLocked()
	return nil
}

// publishLocked lets the accepted path see the highest token, and with a file for no longer than
// until that is to be read again.
func (f *Fence) publishLocked() {
	if f.highest.Epoch == 0 {
		return
	}

	h := &Token{Epoch: f.highest.Epoch, Term: f.highest.Term}
	f.admitted.Store(h)
	f.key.Store(h.fingerprint())
	if f.Path != "" {
		// No timer is left once nobody asks any more: the next one comes with the next reading.
		time.AfterFunc(rereadAfter, func() { f.reread(h) })
	}
}

// reread has the file read with the next work, unless the highest token is another one by now. It takes no lock: a
// raise holds that while it waits for another process.
func (f *Fence) reread(published *Token) {
	if f.admitted.CompareAndSwap(published, nil) {
		f.key.CompareAndSwap(published.fingerprint(), 0)
	}
}
