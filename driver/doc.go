// Package driver is what the author of a store needs: the registers that the protocol asks for ([Store]), the record that
// each of them holds ([Record]) with the form in which it is kept, and what a store may offer on top: notifications
// ([Waker]), many writes or reads at the price of one ([Batcher], [Refresher]), the removal of registers ([Remover]),
// proof that a process has died ([Witness]), the number of its requests ([Counter]), and a limit on writes
// ([WriteLimiter]).
//
// A driver decides nothing. Who may write what, and when, is decided in package regent. Package storetest has the tests
// that every driver must pass.
package driver
