package demo

import "fmt"

// line is what the demo reads of a log.
type line struct {
	Msg      string
	Node     string // whom it is about; empty for a line of a reaper
	Member   string
	Epoch    uint64
	Reason   string
	Why      string
	To       string
	From     string
	Requests string
	Previous string `json:"previous_leader"`
	Ended    string `json:"previous_reason"`
}

// event returns what a line of the log of a process says, for people; empty for what they need not see.
func (l line) event(process string) string {
	switch l.Msg {
	case "member:joined":
		return process + " joins"
	case "member:dropped":
		return fmt.Sprintf("%s drops its heartbeat: %s", process, l.Reason)
	case "became leader":
		if l.Previous == "" {
			return fmt.Sprintf("%s becomes leader, epoch %d", process, l.Epoch)
		}
		return fmt.Sprintf("%s becomes leader, epoch %d, after %s: %s", process, l.Epoch, l.Previous, l.Ended)
	case "lost leadership":
		if l.Node == process {
			return fmt.Sprintf("%s ends its term, epoch %d: %s", process, l.Epoch, l.Reason)
		}
	case "cluster:node_down":
		return fmt.Sprintf("%s: %s is %s: %s", process, l.Member, l.To, l.Why)
	case "cluster:node_up":
		return fmt.Sprintf("%s: %s is %s, was %s", process, l.Member, l.To, l.From)
	case "store fails":
		return fmt.Sprintf("%s: %s of the store fail", process, l.Requests)
	case "store works again":
		return fmt.Sprintf("%s: %s of the store work again", process, l.Requests)
	case "process is silent past its deadline: killing it":
		return fmt.Sprintf("the reaper of %s kills it: it is silent past its deadline", process)
	case "process is gone: released what it held":
		return fmt.Sprintf("the reaper of %s has released what it held", process)
	}
	return ""
}
