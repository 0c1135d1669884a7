// Package driver defines what the author of a store implements: registers ([Store]), and the record in each of them
// ([Record]) with its JSON form. A store may also implement notifications ([Notifier]), many writes or reads in one
// request ([Batcher], [Refresher]), the removal of registers ([Remover]), proof that a process has died
// ([Witness]), the number of its requests ([Counter]), and a limit on writes ([WriteLimiter]).
//
// A driver contains no part of the protocol: package regent decides who may write what, and when. Package storetest is
// the conformance suite that every driver must pass.
package driver
