package poll

import "testing"

func TestMatches(t *testing.T) {
	labels := map[string]string{"zone": "a", "gpu": "", "disk": "ssd"}
	for _, c := range []struct {
		name, assign string
		want         bool
	}{
		{"nothing_is_any", "", true},
		{"any", "any", true},
		{"its_name", "node:node-a", true},
		{"another_name", "node:node-b", false},
		{"a_name_with_a_colon_is_another", "node:node-a:1", false},
		{"a_label", "label:zone=a", true},
		{"all_labels", "label:zone=a, disk=ssd", true},
		{"one_label_of_two", "label:zone=a,disk=hdd", false},
		{"an_empty_label", "label:gpu=", true},
		{"an_empty_label_that_is_not_there", "label:tpu=", false},
		{"nonsense", "label:zone", false},
		{"another_form", "region:a", false},
	} {
		t.Run("a_node_"+map[bool]string{true: "matches_", false: "does_not_match_"}[c.want]+c.name, func(t *testing.T) {
			if got := (Poll{Assign: c.assign}).Matches("node-a", labels); got != c.want {
				t.Errorf("%s: %v", c.assign, got)
			}
		})
	}
}
