package work

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"sync"

	"github.com/regentd/regent/internal/regular"
)

// maxJournal is the size from which a journal is written anew: it then tells what the worker still remembers, and no more.
const maxJournal = 16 << 20

// journal is a file of lines, each a JSON object: {"begin":ID,"kind":…,"epoch":…} when a task is taken, and its outcome when it has ended. A nil
// journal keeps nothing.
type journal struct {
	path     string
	memory   func() (ended, open []*run)
	log      *slog.Logger
	locked   *os.File // while this worker has the journal to itself
	mu       sync.Mutex
	file     *os.File
	size     int64
	limit    int64 // where it is written anew
	buf      []byte
	isClosed bool
}

// entry is any line of a journal.
type entry struct {
	Begin string `json:"begin"`
	outcome
}

// openJournal opens a journal for one worker alone, and tells what is in it, of which it keeps the last ones that have ended.
func openJournal(path string, keep, bytes int, log *slog.Logger, memory func() (ended, open []*run)) (*journal, history, error) {
	locked, err := lock(path)
	if err != nil {
		return nil, history{}, err
	}
	j := &journal{path: path, memory: memory, log: log, locked: locked, limit: maxJournal}
	past, err := readJournal(path, keep, bytes)
	if past.damaged > 0 {
		log.Warn("journal has lines that cannot be read, so that tasks may run again: the file was damaged or changed by "+
			"something else than this worker", "journal", path, "lines", past.damaged, "first", past.firstDamaged)
	}
	if err == nil {
		j.file, err = regular.Open(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	}
	if err == nil {
		err = j.mend(past.torn)
	}
	if err != nil {
		return nil, history{}, errors.Join(fmt.Errorf("open journal: %w", err), j.close())
	}
	return j, past, nil
}

// mend removes the last line, of so many bytes, if a crash has cut it short, so that it does not spoil the next one.
func (j *journal) mend(torn int64) error {
	info, err := j.file.Stat()
	if err != nil {
		return err
	}
	j.size = info.Size()
	if torn > 0 {
		j.size -= torn
		return j.file.Truncate(j.size)
	}
	if j.size == 0 {
		return nil
	}
	last := make([]byte, 1)
	if _, err := j.file.ReadAt(last, j.size-1); err != nil || last[0] == '\n' {
		return err
	}
	return j.write([]byte("\n"))
}

func appendBegin(b []byte, t *Task) []byte {
	b = append(b, `{"begin":`...)
	b = appendString(b, t.ID)
	b = append(b, `,"kind":`...)
	b = appendString(b, t.Kind)
	b = append(b, `,"epoch":`...)
	b = strconv.AppendUint(b, t.Epoch, 10)
	return append(b, "}\n"...)
}

func (j *journal) begin(rs []*run) error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.buf = j.buf[:0]
	for _, r := range rs {
		j.buf = appendBegin(j.buf, &r.task)
	}
	return j.write(j.buf)
}

func (j *journal) end(rs []*run) error {
	if j == nil || len(rs) == 0 {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.buf = j.buf[:0]
	for _, r := range rs {
		j.buf = append(appendOutcome(j.buf, &r.result), '\n')
	}
	return j.write(j.buf)
}

// write appends whole lines, all of them or, as far as this process can tell, none. The mutex is held.
func (j *journal) write(b []byte) error {
	if j.size > j.limit {
		if err := j.rewrite(); err != nil {
			j.limit = 2 * j.size // it goes on as it is
			j.log.Error("journal cannot be written anew", "journal", j.path, "error", err)
		}
	}
	n, err := j.file.Write(b)
	if err != nil {
		err = fmt.Errorf("write journal: %w", err)
		if n > 0 {
			err = errors.Join(err, j.file.Truncate(j.size))
		}
		j.limit = 0 // what is missing is in the memory: the next one that succeeds writes that
		return err
	}
	j.size += int64(n)
	if cap(j.buf) > 1<<20 { // it was a large one
		j.buf = nil
	}
	return nil
}

// rewrite replaces the file by one that holds what is remembered: all of it, however large, or a task that has run could run again.
func (j *journal) rewrite() (err error) {
	// Made anew, so that nothing that stands there, a link say, is written through.
	if err := os.Remove(j.path + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(j.path+".new", os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	out, size, line := bufio.NewWriter(f), 0, []byte(nil)
	ended, open := j.memory()
	for _, r := range ended {
		line = append(appendOutcome(line[:0], &r.result), '\n')
		n, _ := out.Write(line) // the flush tells
		size += n
	}
	for _, r := range open {
		n, _ := out.Write(appendBegin(line[:0], &r.task))
		size += n
	}
	if err := errors.Join(out.Flush(), f.Sync()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), j.path); err != nil {
		return err
	}
	_ = j.file.Close() // everything in it is in the new one
	j.file, j.size, j.limit = f, int64(size), max(maxJournal, 2*int64(size))
	return nil
}

func (j *journal) close() error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.isClosed {
		return nil
	}
	j.isClosed = true
	var err error
	if j.file != nil {
		err = j.file.Close()
	}
	if j.locked != nil {
		err = errors.Join(err, j.locked.Close())
	}
	return err
}

// history is what a journal tells.
type history struct {
	ended []outcome // the last ones, in order
	begun []outcome // without an end

	kept     int // bytes of what has ended
	stripped int // how many of the oldest have no data any more

	torn         int64 // bytes of a last line that was cut short
	damaged      int   // lines that cannot be read, but for that
	firstDamaged int   // the number of the first, from 1
}

// add takes in what has ended, and forgets the oldest: what they returned beyond a number of bytes, and all of them
// beyond a number.
func (h *history) add(o outcome, keep, bytes int) {
	h.ended = append(h.ended, o)
	h.kept += o.size()
	for h.kept > bytes && h.stripped < len(h.ended) {
		old := &h.ended[h.stripped]
		h.kept -= old.size()
		old.drop(bytes)
		h.kept += old.size()
		h.stripped++
	}
	if len(h.ended) > 2*keep {
		h.cut(keep)
	}
}

// cut keeps the last ones.
func (h *history) cut(keep int) {
	drop := len(h.ended) - keep
	if drop <= 0 {
		return
	}
	for i := range drop {
		h.kept -= h.ended[i].size()
	}
	h.ended = append([]outcome(nil), h.ended[drop:]...)
	h.stripped = max(0, h.stripped-drop)
}

// parse reads a line, quickly if it is a result as this package writes it.
func (e *entry) parse(line []byte) bool {
	s := newScan(line)
	if o := s.outcome(); s.Done() {
		*e = entry{outcome: o}
		return true
	}
	return json.Unmarshal(line, e) == nil
}

// readJournal passes over lines that cannot be read, and counts them. A crash cuts short none but the last.
func readJournal(path string, keep, bytes int) (history, error) {
	var h history
	begun := map[string]outcome{}
	var order []string
	err := eachLine(path, func(number int, line []byte, whole bool) {
		var e entry
		readable := e.parse(line)
		switch {
		case !readable && !whole:
			h.torn = int64(len(line))
		case !readable || e.Begin == "" && e.ID == "":
			h.damaged++
			if h.damaged == 1 {
				h.firstDamaged = number
			}
		case e.Begin != "":
			e.ID = e.Begin
			begun[e.ID] = e.outcome
			order = append(order, e.ID)
		default:
			delete(begun, e.ID)
			h.add(e.outcome, keep, bytes)
		}
	})
	if err != nil {
		return h, fmt.Errorf("read journal: %w", err)
	}
	h.cut(keep)
	for _, id := range order {
		if o, ok := begun[id]; ok {
			h.begun = append(h.begun, o)
			delete(begun, id)
		}
	}
	return h, nil
}

// eachLine calls f for each line that is not empty, with its number, and whether it has an end.
func eachLine(name string, f func(number int, line []byte, whole bool)) error {
	file, err := regular.Open(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 64<<10)
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		whole := bytes.HasSuffix(line, []byte("\n"))
		if line = bytes.TrimSuffix(line, []byte("\n")); len(bytes.TrimSpace(line)) > 0 {
			f(number, line, whole)
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
