package model

// graph holds the fault-free transitions: those of state i are to[end[i-1]:end[i]].
type graph struct {
	to  []uint32
	end []uint32
}

func (g *graph) edge(to uint32) { g.to = append(g.to, to) }

func (g *graph) endNode() { g.end = append(g.end, uint32(len(g.to))) }

// reversed returns the same transitions, each from its end to its beginning.
func (g *graph) reversed() graph {
	r := graph{to: make([]uint32, len(g.to)), end: make([]uint32, len(g.end))}
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

// node returns the transitions of state i.
func (g *graph) node(i uint32) []uint32 {
	if i == 0 {
		return g.to[:g.end[0]]
	}

	return g.to[g.end[i-1]:g.end[i]]
}

// checkLiveness searches for a state from which no run without faults leads to a state in which somebody believes that
// it holds the seat: it walks back from all states in which somebody does, and what it has not met by then is stuck.
//
// In a run without faults requests are applied and answered, and no process that is alive lets its deadline pass.
// That last part is what gives the property its teeth: otherwise any seat could be freed by a holder that falls
// asleep.
func (x *explorer[S]) checkLiveness() {
	back := x.fair.reversed()
	for seat := range x.machine.Seats() {
		met := make([]bool, x.states.len())
		var queue []uint32
		for i := range uint32(x.states.len()) {
			if x.machine.Believers(x.states.at(i), seat) > 0 {
				met[i] = true
				queue = append(queue, i)
			}
		}

		for len(queue) > 0 {
			i := queue[len(queue)-1]
			queue = queue[:len(queue)-1]
			for _, from := range back.node(i) {
				if !met[from] {
					met[from] = true
					queue = append(queue, from)
				}
			}
		}

		for i, ok := range met {
			if !ok {
				x.result.Failure = &Failure{NeverStuck, x.trace(uint32(i), 0)}
				return
			}
		}
	}
}
