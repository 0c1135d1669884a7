package cores

// Reached is a set of things that have happened in a run.
type Reached uint64

// What may be reached. A run that has never reached something has not tested it.
const (
	Began Reached = 1 << iota
	AdoptedClaim
	RevokedHeartbeat
	WaitedAfterRollback
	SettledUnknown
	ClaimedOnNotice
	HandedOver
	SavedCheckpoint
	Rejoined
	DutyStuck
	LeftCluster
	TookOverMixed
	ReaperKilled
	ReaperReleased
	FenceRefused
	HandedOverUnhealthy
	RetiredRegister
	WatchedSeldom
	ClaimedKnown
)

var reachedNames = [...]string{
	"a term began", "a claim was adopted", "a heartbeat was revoked", "a rollback was waited for",
	"an unknown outcome was settled", "a claim on a notification", "a handover to whom it named", "a saved checkpoint",
	"a member joined again", "a stuck duty", "a member left", "a takeover between a lease of its own and a heartbeat",
	"a kill by a reaper", "a release by a reaper", "work that a fence refused",
	"an unhealthy leader that handed over", "a register that was retired",
	"a standby that watched its leader seldom", "a claim without a read after a release",
}

// Missing returns the names of what has not been reached.
func (r Reached) Missing() []string {
	var missing []string
	for i, name := range reachedNames {
		if r&(1<<i) == 0 {
			missing = append(missing, name)
		}
	}

	return missing
}
