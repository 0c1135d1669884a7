package s3

import (
	"sync"

	"github.com/regentd/regent/driver"
)

// cache keeps the records that were read or written last, each with its revision. The server says whether a revision is
// still current; if it is, its record is here, since no revision is used twice. The zero value is ready to use.
type cache struct {
	mu      sync.Mutex
	records map[string]driver.Record // by name
	bytes   int                      // about
}

// maxCache is about how many bytes of records are kept: those of 50,000 members.
const maxCache = 32 << 20

// get returns the record that was kept for a register, or the zero Record.
func (c *cache) get(name string) driver.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.records[name]
}

// put keeps a record. Others make room for it, whichever come first.
func (c *cache) put(l driver.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.records == nil {
		c.records = map[string]driver.Record{}
	}

	c.dropLocked(l.Name)
	for name := range c.records {
		if c.bytes+size(l) <= maxCache {
			break
		}

		c.dropLocked(name)
	}

	c.records[l.Name] = l
	c.bytes += size(l)
}

// drop forgets a register.
func (c *cache) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(name)
}

func (c *cache) dropLocked(name string) {
	if l, ok := c.records[name]; ok {
		delete(c.records, name)
		c.bytes -= size(l)
	}
}

// size is about how many bytes a record takes.
func size(l driver.Record) int { return 512 + len(l.Data) + 128*len(l.Past) }
