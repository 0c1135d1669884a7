package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

const (
	// lockWait is how long a claim waits for a transaction under Fence before it fails and is tried again, so that
	// waiting claims cannot take all connections away from heartbeats.
	lockWait = "1s"
	// maxConns is how many requests are under way at once, unless the address says pool_max_conns.
	maxConns = 8
	// connectTimeout bounds a connection attempt unless the address says connect_timeout: with several servers the
	// next one must have its turn.
	connectTimeout = 5 * time.Second
	// pingAfter is for how long a connection may have been idle without a ping before the next request. pgx would ping
	// after a second: before every heartbeat, and before the claim of a takeover. A connection that was cut meanwhile
	// fails one request instead, which has an unknown outcome as any other.
	pingAfter = time.Minute
)

// parseAddress returns the configuration of the pool, and the options with what the address says.
func parseAddress(addr string, opts Options) (*pgxpool.Config, Options, error) {
	addr, table, err := cutTable(addr)
	if err != nil {
		return nil, opts, err
	}
	if table != "" {
		opts.Table = table
	}

	cfg, err := pgxpool.ParseConfig(addr)
	if err != nil {
		return nil, opts, explainKey(addr, withoutSecrets(err))
	}

	if !strings.Contains(addr, "pool_max_conns") {
		cfg.MaxConns = maxConns
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	if cfg.ConnConfig.ValidateConnect == nil { // target_session_attrs is not given
		cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}

	cfg.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > pingAfter }

	return cfg, opts, nil
}

// setSession adds what a session needs that the address does not say, and returns what a pooler may not know of it.
func setSession(params map[string]string) (added []string) {
	for key, value := range map[string]string{
		"application_name": "regent", "lock_timeout": lockWait, "default_transaction_isolation": "read committed",
	} {
		if _, given := params[key]; given {
			continue
		}
		params[key] = value
		if key != "application_name" {
			added = append(added, key)
		}
	}
	slices.Sort(added)
	return added
}

// cutTable takes the key table out of an address: pgx would send it to the server.
func cutTable(addr string) (rest, table string, err error) {
	if !strings.Contains(addr, "://") { // key=value
		var kept []string
		for _, pair := range strings.Fields(addr) {
			if value, ok := strings.CutPrefix(pair, "table="); ok {
				table = value
				continue
			}
			kept = append(kept, pair)
		}
		if table == "" {
			return addr, "", nil
		}
		return strings.Join(kept, " "), table, validateTable(table)
	}

	base, query, ok := strings.Cut(addr, "?")
	if !ok {
		return addr, "", nil
	}

	var kept []string
	given := map[string]bool{}
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if given[key] && !strings.Contains(query, "@") { // with one, it may be a password
			return "", "", &regent.ConfigError{Key: key, Value: "***", Rule: "must be given once"}
		}
		given[key] = true

		if key != "table" {
			kept = append(kept, pair)
			continue
		}
		if table, err = url.QueryUnescape(value); err != nil {
			return "", "", fmt.Errorf("table %q: %w", value, err)
		}
		if err := validateTable(table); err != nil {
			return "", "", err
		}
	}

	if len(kept) > 0 {
		base += "?" + strings.Join(kept, "&")
	}
	return base, table, nil
}

// withoutSecrets returns what pgx says of an address, without the address, which it repeats. It hides a password there
// only where it finds one.
func withoutSecrets(err error) error {
	text := err.Error()
	if at := strings.LastIndex(text, "`: "); at >= 0 {
		text = text[at+len("`: "):]
	}
	return errors.New(text)
}

// rules are those of keys that pgx refuses without naming the value and the rule.
var rules = map[string]string{
	"sslmode":                 "must be disable, allow, prefer, require, verify-ca or verify-full",
	"connect_timeout":         "must be a number of seconds, 0 or more",
	"default_query_exec_mode": "must be cache_statement, cache_describe, describe_exec, exec or simple_protocol",
	"target_session_attrs":    "must be any, read-write, read-only, primary, standby or prefer-standby",
	"pool_max_conns":          "must be a number, 1 or more",
}

// explainKey returns the key, the value and the rule that an error of pgx is about, if it names one of these keys.
func explainKey(addr string, err error) error {
	_, query, _ := strings.Cut(addr, "?")
	values, _ := url.ParseQuery(query)
	for key, rule := range rules {
		if values.Has(key) && strings.Contains(err.Error(), key) {
			return &regent.ConfigError{Key: key, Value: strconv.Quote(values.Get(key)), Rule: rule}
		}
	}
	return err
}

// Validate returns what is wrong with an address, without connecting. The text is that of Open.
func Validate(addr string) error {
	if _, _, err := parseAddress(addr, Options{}); err != nil {
		return fmt.Errorf("store %s: %w", Redact(addr), driver.Refused(err))
	}
	return nil
}

// badPort matches a host with a port that is no number. A host in brackets has colons of its own.
var badPort = regexp.MustCompile(`(?:^|,)(?:\[[^]]*\]|[^/,:[]*):[^/,]*[^0-9/,]`)

// Redact returns the parts of an address that cannot be secret.
func Redact(addr string) string {
	scheme, rest, ok := strings.Cut(addr, "://")
	if !ok || scheme != "postgres" && scheme != "postgresql" {
		return "postgres://…"
	}

	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(query, "@") { // pgx takes a password with ? in it
		return scheme + "://…"
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = "***@" + rest[at+1:]
	} else if badPort.MatchString(rest) { // a user and a password without a host
		return scheme + "://…"
	}
	return scheme + "://" + rest
}
