package config

import "reflect"

// reloadable are the keys that take effect when a running node reloads its configuration.
var reloadable = map[string]bool{"token": true, "tokenFile": true, "logLevel": true}

// Changed returns the keys whose values differ and take effect only at a restart.
func (s *Settings) Changed(now *Settings) []string {
	var keys []string
	for _, k := range Keys() {
		if !reloadable[k.Name] && !reflect.DeepEqual(k.field(s), k.field(now)) {
			keys = append(keys, k.Name)
		}
	}

	if !reflect.DeepEqual(s.Polls, now.Polls) {
		keys = append(keys, "polls")
	}
	if !reflect.DeepEqual(s.Duties, now.Duties) {
		keys = append(keys, "duties")
	}

	if s.HealthCheck == nil && now.HealthCheck != nil { // one can be changed and removed, but not added
		keys = append(keys, healthCheckKey)
	}

	return keys
}

// TokenKey returns the key that gives the token.
func (s *Settings) TokenKey() string {
	if s.TokenFile != "" {
		return "tokenFile"
	}
	return "token"
}
