// Package nearest finds the known name that a mistyped one probably stands for.
package nearest

import "strings"

// Name returns the known name that is nearest to name, or nothing if none is near. It ignores case, hyphens,
// underscores and spaces.
func Name(name string, known []string) string {
	plain := func(s string) string {
		return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
	}
	best := ""

	least := 2 + len(name)/4
	for _, k := range known {
		if d := distance(plain(name), plain(k), least); d < least {
			best = k
			least = d
		}
	}

	return best
}

// distance returns how many letters to insert, drop or change to get from a to b, or limit if it is no less.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}

	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1

		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}

			diagonal = row[j+1]
			row[j+1] = min(change, diagonal+1, row[j]+1)
		}
	}

	return min(row[len(b)], limit)
}
