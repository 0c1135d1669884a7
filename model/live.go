package model

// checkLiveness searches for a state from which no run without faults leads to a state in which somebody believes that
// it holds the election: it walks back from all states in which somebody does, and what it has not met by then is
// stuck.
//
// In a run without faults requests are applied and answered, and no process that is alive lets its deadline pass.
// That last part is what gives the property its teeth: otherwise any election could be freed by a holder that falls
// asleep.
func (x *explorer[S]) checkLiveness() {
	back := x.fair.Reversed()
	for election := range x.machine.Elections() {
		led := make([]bool, x.states.len())
		for i := range led {
			led[i] = x.machine.Believers(x.states.at(uint32(i)), election) > 0
		}

		if stuck, any := back.Reach(led); any {
			x.result.Failure = &Failure{NeverStuck, x.trace(stuck, 0)}
			return
		}
	}
}
