// Package health is ClusterHealth, a duty of the leader: it classifies every member, and the cluster, and says why in words.
//
// # What is assumed, and what is not
//
// Liveness is told by heartbeats alone, as the protocol tells it: a member's heartbeat has run out when its register shows the same revision
// in a listing that began a full lease after that revision was first received, on this node's own monotonic clock. No wall clock of another
// machine counts, and a listing that fails counts for nothing. So no member is called unreachable while its heartbeat goes on.
//
// A probe never proves death, only that this node cannot reach that one. Since a register does not say when it was last written, a member
// that is silent when a term begins may have died a second or a month ago: the new leader calls it unreachable first, and gone only after
// GoneAfter on its own clock. A vacant register does not say whether its member left, was revoked, or was freed by its companion process
// after a crash: it counts as left, unless this node saw it run out, or the election's past says that its term did.
//
// # When it looks
//
// A check is one listing and one probe of each live member. There is one every Interval, and one soon after each hint that registers have
// changed hands. Between two checks every live member has changed its revision, so that a quiet cluster costs one listing per Interval. Only
// doubt asks for more: about a member that is new to this term, that is late, or that cannot be reached, the monitor looks again after two
// heartbeats and after its lease; and a verdict that awaits its second opinion is checked again after Recheck. Checks are never less than
// Recheck apart, and after three quick ones in a row the next waits for Interval.
//
// # Members
//
//   - healthy: its heartbeat goes on, and it answers, quickly, that it is well. One without an address is not asked.
//   - degraded: it says that it is not well, a check of its own fails, it answers slowly, it claims to lead as well, it knows only an older
//     epoch long after the term began, its heartbeat is late (two intervals), or it cannot be reached and it is not yet known whether its
//     heartbeat goes on.
//   - partitioned: it cannot be reached, and its heartbeat was seen to go on after that.
//   - unreachable: its heartbeat has run out.
//   - gone: its register is vacant, or it was silent for GoneAfter. It stays in the list for KeepGone. One that was gone before the term
//     began is not listed, since registers are never deleted; the leader of the previous term is.
//   - unknown: it is new to this term, does not answer, and its heartbeat is awaited.
//
// A member changes for the worse when two checks in a row say so, and then by no more than the milder of them, and for the better likewise:
// its status is the median of what it was and of the last two verdicts. What is proved, a heartbeat that has run out or a vacant register,
// counts at once, and so does the first good word of a new incarnation. The node itself is never worse than degraded: it leads. It is probed
// like the others, at the address that it tells them, which shows one that leads nowhere.
//
// # The cluster
//
//   - critical: others were to stand by for the leader and none of them could take over; or half or more of the members that are not gone are
//     unreachable or partitioned; or there is no coordinator ([NoCoordinator]). Who could take over is eligible, campaigns for the election,
//     calls itself healthy in its register, and is healthy or degraded here: a slow standby is a standby. A member that died counts among
//     those that were to stand by for as long as it is listed, one that left does not.
//   - degraded: a member is degraded, partitioned or unreachable; or the last standby has left, within KeepGone; or the members cannot be
//     listed.
//   - healthy: otherwise. A single node is.
//
// # Events
//
// A check emits cluster:health_check. A member that was there when the term began, and is up, emits nothing: a failover is no reason for a
// storm. Any other that comes up emits cluster:node_up, one that becomes unreachable or gone cluster:node_down, one that becomes partitioned
// cluster:partition. Healthy and degraded are both up.
package health
