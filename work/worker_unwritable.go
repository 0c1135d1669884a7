package work

import (
	"errors"
	"time"
)

// journalBackoff is how long a worker accepts no tasks after its journal could not be written: others can run them.
// Then it tries to write the journal, without a task.
const journalBackoff = 10 * time.Second

// Unwritable returns why the worker refuses tasks: it could not write its journal, or the file of its fence. It returns
// nil if it could. It does not wait for a file.
func (w *Worker) Unwritable() error {
	if w.Open() != nil {
		return w.openErr
	}

	w.mu.Lock()
	err := w.journalErr
	w.mu.Unlock()

	return errors.Join(err, w.Fence.Unwritable())
}

// journalFailedLocked has the worker refuse tasks until its journal can be written again. Its caller is one of the
// runners.
func (w *Worker) journalFailedLocked(err error) {
	w.unwritable = time.Now().Add(journalBackoff)
	if w.journalErr == nil {
		w.runners.Go(w.retryJournal)
	}

	w.journalErr = err
}

// retryJournal tries to write the journal until that succeeds, or the worker is closed.
func (w *Worker) retryJournal() {
	for {
		select {
		case <-time.After(journalBackoff):
		case <-w.ctx.Done():
			return
		}

		err := w.journal.rewrite()
		w.mu.Lock()
		w.journalErr = err
		if err != nil {
			w.unwritable = time.Now().Add(journalBackoff)
		}
		w.mu.Unlock()

		if err == nil {
			w.Log.Info("journal can be written again: this worker takes tasks", "journal", w.Journal)
			return
		}
	}
}
