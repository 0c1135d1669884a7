package s3

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/regentd/regent/driver"
)

// cache keeps the records that were read or written last, each with its revision. The server says whether a revision is
// still current; if it is, its record is here, since no revision is used twice. The zero value is ready to use.
type cache struct {
	mu      sync.Mutex
	records map[string]kept // by name
	bytes   int             // about
}

// kept is a record that was read or written.
type kept struct {
	record driver.Record
	body   int       // how long its object was
	at     time.Time // when that was
	share  float64   // of the time for which it serves: so that records of one list are not all read by one other
}

// serves reports whether a record may stand for a newer one that has a body of that length.
func (k kept) serves(body int, age time.Duration) bool {
	if k.record.Name == "" || k.body != body {
		return false
	}

	return time.Since(k.at) < time.Duration(k.share*float64(age))
}

// maxCache is about how many bytes of records are kept: those of 50,000 members.
const maxCache = 32 << 20

// get returns the record that was kept for a register, or the zero Record.
func (c *cache) get(name string) driver.Record { return c.kept(name).record }

// kept returns what was kept for a register.
func (c *cache) kept(name string) kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.records[name]
}

// put keeps a record with a body of that length, which was read or written at that time. Others make room for it,
// whichever come first.
func (c *cache) put(l driver.Record, body int, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.records == nil {
		c.records = map[string]kept{}
	}

	c.dropLocked(l.Name)
	for name := range c.records {
		if c.bytes+size(l) <= maxCache {
			break
		}

		c.dropLocked(name)
	}

	c.records[l.Name] = kept{record: l, body: body, at: at, share: 0.5 + rand.Float64()/2}
	c.bytes += size(l)
}

// drop forgets a register.
func (c *cache) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(name)
}

func (c *cache) dropLocked(name string) {
	if k, ok := c.records[name]; ok {
		delete(c.records, name)
		c.bytes -= size(k.record)
	}
}

// size is about how many bytes a record takes.
func size(l driver.Record) int { return 512 + len(l.Data) + 128*len(l.Past) }
