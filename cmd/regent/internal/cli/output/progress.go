package output

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progressAfter is how long a command may be silent.
const progressAfter = 2 * time.Second

// Progress begins to wait for something. If that takes more than two seconds, it says on a stream what is waited for,
// and on a terminal for how long. The caller calls the returned function when it is over.
func Progress(out io.Writer, what string) (done func()) {
	return progress(out, what, progressAfter, Terminal(out))
}

func progress(out io.Writer, what string, after time.Duration, redraw bool) (done func()) {
	stop := make(chan struct{})
	var ended sync.WaitGroup
	began := time.Now()

	ended.Go(func() {
		timer := time.NewTimer(after)
		defer timer.Stop()

		shown := false
		for {
			select {
			case <-stop:
				if shown && redraw {
					fmt.Fprint(out, "\r\x1b[K")
				}
				return
			case <-timer.C:
			}

			switch {
			case redraw:
				fmt.Fprintf(out, "\r\x1b[K%s … %s", what, Duration(time.Since(began).Round(time.Second)))
				timer.Reset(time.Second)
			case !shown:
				fmt.Fprintf(out, "%s …\n", what)
			}
			shown = true
		}
	})

	return sync.OnceFunc(func() {
		close(stop)
		ended.Wait()
	})
}
