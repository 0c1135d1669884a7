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

	"github.com/regentd/regent/internal/jsonscan"
	"github.com/regentd/regent/internal/regular"
)

// maxJournal is the size from which a journal is rewritten. It then holds only what the worker still remembers.
const maxJournal = 16 << 20

// journal is a file of lines, each a JSON object: {"begin":ID,"kind":…,"epoch":…} when a task is accepted, and its
// result when it has ended. A nil journal records nothing.
type journal struct {
	path     string
	snapshot func() (ended, open []*run)
	log      *slog.Logger
	lockFile *os.File // locks the journal for this worker
	mu       sync.Mutex
	file     *os.File
	size     int64
	limit    int64 // the size from which it is rewritten
	buf      []byte
	closed   bool
}

// journalLine is a line of a journal.
type journalLine struct {
	Begin string `json:"begin"`
	wireResult
}

// openJournal locks and opens a journal, and returns what it holds, with the last results only.
func openJournal(
	path string, keep, bytes int, log *slog.Logger, snapshot func() (ended, open []*run),
) (*journal, history, error) {
	locked, err := lockJournal(path)
	if err != nil {
		return nil, history{}, err
	}

	j := &journal{path: path, snapshot: snapshot, log: log, lockFile: locked, limit: maxJournal}
	past, err := readJournal(path, keep, bytes)
	if past.damaged > 0 {
		log.Warn("journal has unreadable lines, so tasks may run again: the file was damaged, or changed by "+
			"another program", "journal", path, "lines", past.damaged, "first", past.firstDamaged)
	}

	if err == nil {
		j.file, err = regular.Open(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	}
	if err == nil {
		err = j.repairTail(past.torn)
	}

	if err != nil {
		return nil, history{}, errors.Join(fmt.Errorf("open journal: %w", err), j.close())
	}
	return j, past, nil
}

// repairTail removes the last line, of so many bytes, if a crash has cut it short, or adds its missing line break.
// Otherwise the next line would be appended to it.
func (j *journal) repairTail(torn int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()

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

	// Not by writeLocked: it may rewrite a large journal, and the worker has nothing yet to write.
	n, err := j.file.Write([]byte("\n"))
	j.size += int64(n)
	return err
}

func appendBegin(b []byte, t *Task) []byte {
	b = append(b, `{"begin":`...)
	b = jsonscan.AppendString(b, t.ID)
	b = append(b, `,"kind":`...)
	b = jsonscan.AppendString(b, t.Kind)
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
	return j.writeLocked(j.buf)
}

func (j *journal) end(rs []*run) error {
	if j == nil || len(rs) == 0 {
		return nil
	}

	j.mu.Lock()
	defer j.mu.Unlock()

	j.buf = j.buf[:0]
	for _, r := range rs {
		j.buf = append(appendResult(j.buf, &r.result), '\n')
	}
	return j.writeLocked(j.buf)
}

// writeLocked appends whole lines: all of them, or as far as this process can tell, none.
func (j *journal) writeLocked(b []byte) error {
	if j.size > j.limit {
		if err := j.rewriteLocked(); err != nil {
			j.limit = 2 * j.size // the old file stays in use
			j.log.Error("journal cannot be rewritten", "journal", j.path, "error", err)
		}
	}

	n, err := j.file.Write(b)
	if err != nil {
		err = fmt.Errorf("write journal: %w", err)
		if n > 0 {
			err = errors.Join(err, j.file.Truncate(j.size))
		}
		j.limit = 0 // the next write that succeeds rewrites the file, which adds what is missing
		return err
	}

	j.size += int64(n)
	if cap(j.buf) > 1<<20 { // it has held a large line
		j.buf = nil
	}

	return nil
}

// rewrite replaces the file by one that holds what the worker remembers. It adds what could not be written before.
func (j *journal) rewrite() error {
	j.mu.Lock()
	defer j.mu.Unlock()

	if err := j.rewriteLocked(); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}

	return nil
}

// rewriteLocked replaces the file by one that holds what the worker remembers. It holds all of that, however large:
// otherwise a task that has run could run again.
func (j *journal) rewriteLocked() (err error) {
	// A new file, so that nothing is written through a link that somebody has put there.
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

	out := bufio.NewWriter(f)
	size := 0
	line := []byte(nil)
	ended, open := j.snapshot()
	for _, r := range ended {
		line = append(appendResult(line[:0], &r.result), '\n')
		n, _ := out.Write(line) // Flush returns the error
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

	_ = j.file.Close() // the new file holds everything that it held
	j.file = f
	j.size = int64(size)
	j.limit = max(maxJournal, 2*int64(size))
	return nil
}

func (j *journal) close() error {
	if j == nil {
		return nil
	}

	j.mu.Lock()
	defer j.mu.Unlock()

	if j.closed {
		return nil
	}

	j.closed = true
	var err error
	if j.file != nil {
		err = j.file.Close()
	}

	if j.lockFile != nil {
		err = errors.Join(err, j.lockFile.Close())
	}
	return err
}

// history is the content of a journal.
type history struct {
	ended      []wireResult // the last ones, in order
	unfinished []wireResult // started, and not ended

	keptBytes   int // of the results in ended
	withoutData int // how many of the oldest in ended have lost their data

	torn         int64 // bytes of a last line that was cut short
	damaged      int   // other lines that cannot be read
	firstDamaged int   // the line number of the first of them
}

// add appends a result, and drops the oldest: their data beyond a number of bytes, and all of them beyond a number.
func (h *history) add(o wireResult, keep, bytes int) {
	h.ended = append(h.ended, o)
	h.keptBytes += o.size()
	for h.keptBytes > bytes && h.withoutData < len(h.ended) {
		old := &h.ended[h.withoutData]
		h.keptBytes -= old.size()
		old.drop(bytes)
		h.keptBytes += old.size()
		h.withoutData++
	}

	if len(h.ended) > 2*keep {
		h.keepLast(keep)
	}
}

// keepLast drops all but the last results.
func (h *history) keepLast(keep int) {
	drop := len(h.ended) - keep
	if drop <= 0 {
		return
	}

	for i := range drop {
		h.keptBytes -= h.ended[i].size()
	}

	h.ended = append([]wireResult(nil), h.ended[drop:]...)
	h.withoutData = max(0, h.withoutData-drop)
}

// parse decodes a line. It is fast if the line is a result that this package has written.
func (e *journalLine) parse(line []byte) bool {
	s := newScan(line)
	if o := s.result(); s.Done() {
		*e = journalLine{wireResult: o}
		return true
	}
	return json.Unmarshal(line, e) == nil
}

// readJournal skips lines that cannot be read, and counts them. A crash cuts short only the last line.
func readJournal(path string, keep, bytes int) (history, error) {
	var h history
	begun := map[string]wireResult{}
	var order []string
	err := eachLine(path, func(number int, line []byte, whole bool) {
		var e journalLine
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
			begun[e.ID] = e.wireResult
			order = append(order, e.ID)
		default:
			delete(begun, e.ID)
			h.add(e.wireResult, keep, bytes)
		}
	})
	if err != nil {
		return h, fmt.Errorf("read journal: %w", err)
	}

	h.keepLast(keep)
	for _, id := range order {
		if o, ok := begun[id]; ok {
			h.unfinished = append(h.unfinished, o)
			delete(begun, id)
		}
	}

	return h, nil
}

// eachLine calls f for each line that is not empty, with its number, and whether it ends with a line break.
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
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(bytes.TrimSpace(line)) > 0 {
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
