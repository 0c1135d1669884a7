package shell

// spare is a goroutine that has performed a request and waits for the next one. Its stack has grown: to let the stack
// of a new goroutine grow takes a seventh of the processor time of a short term. At most one goroutine waits.
type spare struct {
	handed  chan handed
	waiting bool // somebody receives from handed, or is about to; guarded by endMu of the shell
}

// handed is what is handed to another goroutine: a request, or something else to do.
type handed struct {
	job  *job
	todo Todo
}

// Todo is something to do. It is no function, so that nothing is allocated for it.
type Todo interface{ Do() }

// Go calls t.Do in another goroutine.
func (s *Shell) Go(t Todo) { s.hand(handed{todo: t}) }

// send performs a request in another goroutine.
func (s *Shell) send(j *job) { s.hand(handed{job: j}) }

// hand hands something to the goroutine that waits for it, or to a new one.
func (s *Shell) hand(h handed) {
	select {
	case s.spare.handed <- h:
	default:
		go s.handle(h)
	}
}

// handle does what was handed over, and what is handed over next.
func (s *Shell) handle(h handed) {
	for ok := true; ok; h, ok = s.nextHanded() {
		if h.todo != nil {
			h.todo.Do()
		} else {
			s.work(h.job)
		}
	}
}

// nextHanded waits for what is handed over next. It returns false if somebody else does that, or the shell is closed.
// The wait group counts whoever waits, not whoever performs a request.
func (s *Shell) nextHanded() (handed, bool) {
	if !s.mayWait() {
		return handed{}, false
	}

	defer s.wg.Done()
	select {
	case h := <-s.spare.handed:
		s.endMu.Lock()
		s.spare.waiting = false
		s.endMu.Unlock()
		return h, true
	case <-s.ctx.Done():
		return handed{}, false
	}
}

// mayWait reports whether its caller is to wait, and counts it.
func (s *Shell) mayWait() bool {
	s.endMu.Lock()
	defer s.endMu.Unlock()
	if s.spare.waiting || s.ctx.Err() != nil {
		return false
	}

	s.spare.waiting = true
	s.wg.Add(1)
	return true
}
