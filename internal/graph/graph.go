// Package graph holds the transitions between many states, and finds the states from which others can be reached. The
// explorer and the model use it for liveness: that somebody can always come to lead.
package graph

// Graph holds transitions between states, which are numbered from 0. Those of one state are added before those of the
// next. The zero value is usable.
type Graph struct {
	to  []uint32
	end []uint32 // those of state i are to[end[i-1]:end[i]]
}

// Edge adds a transition of the present state.
func (g *Graph) Edge(to uint32) { g.to = append(g.to, to) }

// EndNode ends the present state: the next transitions are those of the state after it.
func (g *Graph) EndNode() { g.end = append(g.end, uint32(len(g.to))) }

// Reversed returns the same transitions, each from its end to its beginning.
func (g *Graph) Reversed() *Graph {
	r := &Graph{to: make([]uint32, len(g.to)), end: make([]uint32, len(g.end))}
	for _, to := range g.to {
		r.end[to]++
	}

	var sum uint32
	for i, n := range r.end {
		r.end[i] = sum // the beginning for now: filling moves it to the end
		sum += n
	}

	var k uint32
	for from, end := range g.end {
		for ; k < end; k++ {
			to := g.to[k]
			r.to[r.end[to]] = uint32(from)
			r.end[to]++
		}
	}

	return r
}

// Reach marks every state that can be reached from those that are marked, and returns the first that cannot be; false
// means that all can.
func (g *Graph) Reach(marked []bool) (unreached uint32, any bool) {
	var queue []uint32
	for i, ok := range marked {
		if ok {
			queue = append(queue, uint32(i))
		}
	}

	for len(queue) > 0 {
		i := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, to := range g.node(i) {
			if !marked[to] {
				marked[to] = true
				queue = append(queue, to)
			}
		}
	}

	for i, ok := range marked {
		if !ok {
			return uint32(i), true
		}
	}

	return 0, false
}

// node returns the transitions of state i.
func (g *Graph) node(i uint32) []uint32 {
	if i == 0 {
		return g.to[:g.end[0]]
	}

	return g.to[g.end[i-1]:g.end[i]]
}
