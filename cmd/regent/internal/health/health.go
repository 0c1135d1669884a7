// Package health is ClusterHealth, a duty of the leader: it classifies every member and the cluster, and gives reasons.
//
// # What is assumed
//
// Liveness follows from heartbeats alone, as in the protocol: see [regent.Roster]. A heartbeat has expired when a
// listing that began a full lease after it was first received shows no newer one, by the clock of this node. No wall
// clock of another machine counts, and a listing that fails counts for nothing. So no member is classified as
// unreachable while its heartbeat continues.
//
// A probe never proves death, only that this node cannot reach the member. A register does not say when it was last
// written, so a member that is silent when a term begins may have died a second or a month ago. The new leader
// classifies it as unreachable first, and as gone only after GoneAfter on its own clock. A vacant register says why its
// last incarnation ended: the member left, was revoked, or was released by its reaper after a crash. One that does not
// say it counts as left, unless this node saw it expire.
//
// # When it checks
//
// A check is one listing and one probe of each live member. There is one every Interval, and one soon after each
// notification that registers have changed hands. Between two checks every live member has changed its revision, so a
// quiet cluster costs one listing per Interval. Only uncertainty costs more. A member that is new to this term, late,
// or cannot be reached is checked again after two heartbeats and after its lease. A finding that needs a second one is
// checked again after Recheck. Checks are never less than Recheck apart, and after three quick ones in a row the next
// waits for Interval.
//
// # Members
//
//   - healthy: its heartbeat continues, and it answers in time that it is healthy. A member without an address is not
//     probed.
//   - degraded: it reports a problem, one of its checks fails, it answers slowly, it claims to lead as well, it knows
//     only an older epoch long after the term began, its heartbeat is late (two intervals), or it cannot be reached and
//     it is not known yet whether its heartbeat continues.
//   - partitioned: it cannot be reached, and its heartbeat continued after that.
//   - unreachable: its heartbeat has expired.
//   - gone: its register is vacant, or it was silent for GoneAfter. It stays in the list for KeepGone. A member that
//     was gone before the term began is not listed, since vacant registers are kept for long; the leader of the
//     previous term is.
//   - unknown: it is new to this term, does not answer, and its first heartbeat is awaited.
//
// A member gets a worse status when two checks in a row find one, and then the milder of the two, and likewise for a
// better one: its status is the median of its status and the last two findings. A heartbeat that has expired or a
// vacant register is proof and counts at once, and so does the first healthy finding of a new incarnation. The node
// itself is never worse than degraded: it leads. It is probed like the others, at the address that it advertises,
// which shows an address that does not work.
//
// # The cluster
//
//   - critical: there were standbys and none of them could take over; or half or more of the members that are not gone
//     are unreachable or partitioned; or nobody checks the members ([NoCoordinator]). A member could take over if it is
//     eligible, campaigns for the election, is healthy according to its register, and is healthy or degraded here. A
//     member that died counts as a standby for as long as it is listed, one that left does not.
//   - degraded: a member is degraded, partitioned or unreachable; or the last standby has left, within KeepGone; or the
//     members cannot be listed.
//   - healthy: otherwise. A single node is healthy.
//
// # Events
//
// A check emits cluster:health_check. A member that was there when the term began, and is up, emits nothing: otherwise
// every failover would cause an event per member. Any other that comes up emits cluster:node_up, one that becomes
// unreachable or gone cluster:node_down, one that becomes partitioned cluster:partition. Healthy and degraded are both
// up.
package health
