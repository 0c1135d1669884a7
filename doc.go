// Package regent elects at most one leader among processes that share a store, and fences off work sent by former leaders.
// The store is one that its user already runs.
//
// # What is assumed
//
//   - The store's registers are linearizable and durable: an answered swap is never forgotten, and no revision comes back.
//   - Clocks of two machines run at the same rate to within 0.1 % each. What they show does not matter, and no clock of another machine
//     is ever compared.
//   - A duty stops within the stop timeout after its context has ended. One that does not is reported, and the process should exit.
//
// Then at most one member believes at any time that it leads an election: the one before it has stopped believing, and had the stop
// timeout to end its work.
//
// # What is not guaranteed
//
// A process can be stopped between asking [Term.Valid] and acting on the answer, for any time. Work that must not be done twice carries
// the term's Token to where it lands, and is checked there by a [Fence]. That holds even where the assumptions above do not.
// docs/GUARANTEES.md has all of it, and the argument.
//
// # The shortest program
//
//	m := &regent.Member{Store: store}
//	err := m.Lead(ctx, "reports", func(ctx context.Context, t regent.Term) error {
//		return report(ctx, t) // on at most one process; ctx ends with the term
//	})
package regent
