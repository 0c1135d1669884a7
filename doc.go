// Package regent elects at most one leader among processes that share a store, and fences off work sent by former
// leaders. The store is a SQLite file, or one that its user already runs.
//
// # Assumptions
//
//   - The registers of the store are linearizable and durable: an answered swap is never lost, and no revision is used
//     twice.
//   - The clocks of two machines run at the same rate, to within 0.1 % each. The time that they show does not
//     matter: no clock of another machine is ever compared.
//   - A duty stops within the stop timeout after its context has ended. If it does not, that is reported, and the
//     process should exit.
//
// Under these assumptions at most one member at any time leads an election. Before a member leads, the lease of the
// former leader has expired or was released, and its duties had the stop timeout to end.
//
// # What is not guaranteed
//
// A process can be stopped for any time between a call of [Term.Valid] and the action that depends on it. Work that
// must not be done twice carries the term's [Token] to its receiver, and a [Fence] of the receiver checks it. That
// holds even where the assumptions do not. docs/GUARANTEES.md has the details and the argument.
//
// # The shortest program
//
//	m := &regent.Member{Store: store}
//	err := m.Lead(ctx, "reports", func(ctx context.Context, t regent.Term) error {
//		return report(ctx, t) // on at most one process; ctx ends with the term
//	})
package regent
