package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/regentd/regent/driver"
)

// DefaultTable is the name of the table unless Options.Table is set.
const DefaultTable = "regent_register"

// tableName is what a table, and its schema, may be called: names that need no quotes, and that fit a channel.
var tableName = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,30}\.)?[a-z_][a-z0-9_]{0,30}$`)

func validateTable(name string) error {
	if !tableName.MatchString(name) {
		return fmt.Errorf("table %q: it must be a name of at most 31 lower-case letters, digits and _, "+
			"with or without a schema in front: regent_register, app.regent_register", name)
	}
	return nil
}

// quoteTable returns the table as it stands in a statement.
func quoteTable(name string) string {
	return `"` + strings.ReplaceAll(name, ".", `"."`) + `"`
}

// channelOf returns the shared channel of notifications. A channel belongs to one database.
func channelOf(table string) string { return table + ".wake" }

// ownChannels begins the names of all other channels of a table: a name of PostgreSQL has at most 63 bytes.
func ownChannels(table string) string { return "regent." + shortHash(table) + "." }

// membersChannel follows ownChannels, and makes it the channel of the member registers.
const membersChannel = "members"

// shortHash returns 80 bits of a hash, as notification computes it.
func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:10])
}

// notification returns the expression that notifies of the row n.
func notification(table string) string {
	own := "'" + ownChannels(table)
	on := func(channel string) string { return "pg_notify(" + channel + ", " + message + ")::text" }
	return on(own+"' || left(encode(sha256(convert_to(n.name, 'UTF8')), 'hex'), 20)") +
		" || " + on("'"+channelOf(table)+"'") +
		" || CASE WHEN starts_with(n.name, '" + driver.MemberPrefix + "') THEN " + on(own+membersChannel+"'") +
		" ELSE '' END"
}

// channelOf returns the channel of a topic.
func (s *Store) channelOf(t driver.Topic) string {
	switch t {
	case driver.AllTopic:
		return channelOf(s.opts.Table)
	case driver.MembersTopic:
		return ownChannels(s.opts.Table) + membersChannel
	}
	return ownChannels(s.opts.Table) + shortHash(t.Name)
}

// proofChannel returns the channel on which this Store proves to itself that notifications arrive.
func (s *Store) proofChannel() string {
	return ownChannels(s.opts.Table) + "proof." + strconv.FormatUint(s.id, 36)
}

// Schema returns the statements that create the table, for a migration of yours.
//
// The pair of name and epoch is unique only so that PostgreSQL counts the epoch among the columns that a foreign key
// may refer to. An UPDATE that changes such a column takes a lock that conflicts with FOR KEY SHARE, and one that
// does not change it takes a lock that does not: so a transaction under [Fence] holds back the next claim, which
// raises the epoch, but neither a renewal nor a checkpoint.
//
// The names compare as bytes (COLLATE "C"). A heartbeat rewrites its row and changes no indexed column, so the table
// has room in each page for the new version (fillfactor), and no index grows.
func Schema(table string) (string, error) {
	if table == "" {
		table = DefaultTable
	}
	if err := validateTable(table); err != nil {
		return "", err
	}

	return strings.ReplaceAll(`CREATE TABLE IF NOT EXISTS REGISTERS (
	name        text        COLLATE "C" PRIMARY KEY,
	rev         text        NOT NULL,
	epoch       numeric(20) NOT NULL,
	holder      text        NOT NULL,
	incarnation text        NOT NULL,
	next        text        NOT NULL,
	paused      boolean     NOT NULL,
	record      json        NOT NULL,
	written     timestamptz NOT NULL DEFAULT now(),
	UNIQUE (name, epoch)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)`,
		"REGISTERS", quoteTable(table)), nil
}

// columns are those of a row, in the order of arguments.
const columns = "name, rev, epoch, holder, incarnation, next, paused, record"

// statements are the statements of a store, with its table and channel.
type statements struct {
	get, list, refresh           string
	create, swap, swapAll, erase string
	notify                       string
}

// changed is true if subscribers are notified when the row n replaces o, as driver.Record.Notable says. A row that was
// not found counts as changed.
const changed = `(o.name IS NULL OR (o.holder, o.incarnation, o.epoch, o.next, o.paused) IS DISTINCT FROM
	(n.holder, n.incarnation, n.epoch, n.next, n.paused))`

// message is what is sent for the row n: its name; and if it is vacant, so that a standby can claim it, its revision
// and record too. PostgreSQL takes at most 8,000 bytes.
const message = `CASE WHEN n.holder = '' AND octet_length(n.record::text) < 7000
	THEN n.name || E'\n' || n.rev || E'\n' || n.record::text ELSE n.name END`

func newStatements(table string) statements {
	notify := notification(table)
	fill := func(text string) string {
		return strings.NewReplacer("REGISTERS", quoteTable(table), "COLUMNS", columns, "CHANGED", changed,
			"NOTIFY", notify).Replace(text)
	}

	return statements{
		// A server in recovery is a replica, which may show old rows. Every answer says whether it is one, also if
		// there are no rows.
		get: fill(`SELECT rev, record::text, pg_is_in_recovery() FROM REGISTERS WHERE name = $1
			UNION ALL SELECT '', '', pg_is_in_recovery() WHERE NOT EXISTS (SELECT FROM REGISTERS WHERE name = $1)`),
		list: fill(`(SELECT name, rev, record::text, pg_is_in_recovery() FROM REGISTERS
			WHERE name > $1 AND name >= $2 AND name <= $3 AND starts_with(name, $2) ORDER BY name LIMIT $4::int)
			UNION ALL SELECT '', '', '', pg_is_in_recovery()`),
		refresh: fill(`SELECT k.name, coalesce(t.rev, ''), coalesce(t.record::text, ''), pg_is_in_recovery()
			FROM unnest($1::text[], $2::text[]) AS k(name, rev) LEFT JOIN REGISTERS t USING (name)
			WHERE t.rev IS DISTINCT FROM k.rev
			UNION ALL SELECT '', '', '', pg_is_in_recovery()`),

		create: fill(`WITH n AS (INSERT INTO REGISTERS (COLUMNS)
			VALUES ($1, $2, $3::text::numeric, $4, $5, $6, $7, $8::text::json) ON CONFLICT DO NOTHING RETURNING *)
			SELECT n.rev, NOTIFY FROM n`),
		swap: fill(`WITH o AS (SELECT * FROM REGISTERS WHERE name = $1 AND rev = $9),
			n AS (UPDATE REGISTERS t SET rev = $2, epoch = $3::text::numeric, holder = $4, incarnation = $5, next = $6,
				paused = $7, record = $8::text::json, written = now() WHERE name = $1 AND rev = $9 RETURNING t.*)
			SELECT n.rev, CASE WHEN CHANGED THEN NOTIFY END FROM n LEFT JOIN o ON true`),
		swapAll: fill(swapAllStatement),
		erase:   fill(`DELETE FROM REGISTERS WHERE name = $1 AND rev = $2 AND holder = '' RETURNING rev`),
		notify:  `SELECT pg_notify($1, $2)::text`,
	}
}

// swapAllStatement swaps many registers. Each has its own outcome, so it never waits for a row that another transaction
// has locked (SKIP LOCKED): a former leader's transaction under Fence would hold back all others. It returns the
// revisions that were applied, and the names of the rows that it has locked: the others are swapped one by one.
const swapAllStatement = `WITH input AS MATERIALIZED (
	SELECT name, rev, epoch::numeric AS epoch, holder, incarnation, next, paused::boolean AS paused,
		record::json AS record, known
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
		$9::text[]) AS i(COLUMNS, known)),
o AS MATERIALIZED (
	SELECT t.name, t.rev, t.epoch, t.holder, t.incarnation, t.next, t.paused FROM REGISTERS t
	WHERE (t.name, t.epoch) IN (SELECT name, epoch FROM input WHERE known <> '')
	FOR NO KEY UPDATE SKIP LOCKED),
claimed AS MATERIALIZED (
	SELECT t.name, t.rev, t.epoch, t.holder, t.incarnation, t.next, t.paused FROM REGISTERS t
	WHERE t.name IN (SELECT name FROM input WHERE known <> '')
		AND (t.name, t.epoch) NOT IN (SELECT name, epoch FROM input WHERE known <> '')
	FOR UPDATE SKIP LOCKED),
locked AS MATERIALIZED (SELECT * FROM o UNION SELECT * FROM claimed),
n AS (
	UPDATE REGISTERS t SET rev = i.rev, epoch = i.epoch, holder = i.holder, incarnation = i.incarnation, next = i.next,
		paused = i.paused, record = i.record, written = now()
	FROM input i WHERE t.name = i.name AND t.rev = i.known AND i.known <> ''
		AND EXISTS (SELECT FROM locked WHERE locked.name = i.name)
	RETURNING t.*),
created AS (
	INSERT INTO REGISTERS (COLUMNS) SELECT COLUMNS FROM input WHERE known = '' ORDER BY name
	ON CONFLICT DO NOTHING RETURNING *)
SELECT n.rev, '', CASE WHEN CHANGED THEN NOTIFY END FROM n LEFT JOIN locked o USING (name)
UNION ALL SELECT n.rev, '', NOTIFY FROM created n
UNION ALL SELECT '', name, NULL FROM locked`

// prepare creates the table if necessary, and checks the server.
func (s *Store) prepare(ctx context.Context) error {
	var recovery bool
	var encoding, version string
	var d durability
	row := s.db.queryRow(ctx, `SELECT pg_is_in_recovery(), current_setting('server_encoding'),
		current_setting('server_version_num'), current_setting('fsync'), current_setting('synchronous_commit'),
		current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication)`)
	if err := row(&recovery, &encoding, &version, &d.sync, &d.commits, &d.standbys, &d.replicas); err != nil {
		return s.explain(ctx, err)
	}

	switch {
	case recovery:
		return s.explain(ctx, errRecovery)
	case encoding != "UTF8":
		return driver.Refused(fmt.Errorf("%sthe encoding of the database is %s: it must be UTF8", s.where(),
			encoding))
	case len(version) < 6 || version < "130000":
		return driver.Refused(fmt.Errorf("%sthe server is version %s: it must be 13 or later", s.where(), version))
	}
	d.warn(s.opts.OnWarning)

	switch err := s.checkTable(ctx); {
	case !errors.Is(err, ErrNoTable):
		return err
	case s.opts.AllowMissing:
		return nil
	case s.opts.NoCreate:
		return s.mayCreate(ctx, err)
	}
	return s.createTable(ctx)
}

// durability is what decides whether a commit that was answered can be lost.
type durability struct {
	sync, commits, standbys string // settings of the server
	replicas                int64  // that follow it now
}

// warn warns of what can lose commits.
func (d durability) warn(warn func(string)) {
	if d.sync == "off" {
		warn("fsync is off: a crash of the server's machine loses or damages what was committed, and with it claims")
	}
	if d.commits == "off" {
		warn("synchronous_commit is off: a crash of the server loses the last commits, " +
			"and with them claims; set it to on for the user or the database of Regent")
	}
	if d.replicas > 0 && d.standbys == "" {
		warn("synchronous_standby_names is empty, and the server has replicas: a failover can lose the last commits, " +
			"and with them claims; docs/STORES.md says what that does")
	}
}

// createTable creates the table.
func (s *Store) createTable(ctx context.Context) error {
	schema, err := Schema(s.opts.Table)
	if err != nil {
		return driver.Refused(err)
	}

	// Two that create a table at once can fail, although they say IF NOT EXISTS.
	for range 5 {
		if err = s.db.exec(ctx, schema); err == nil || !alreadyThere(err) {
			break
		}
	}
	if err != nil {
		err = s.explain(ctx, fmt.Errorf("create table %s: %w", s.opts.Table, err))
		return s.mayCreate(ctx, err)
	}
	return s.checkTable(ctx)
}

// checkTable returns an error if the table is missing, has not the columns and indexes that it should have, or if this
// user may not use it.
func (s *Store) checkTable(ctx context.Context) error {
	var found string
	err := s.db.queryRow(ctx, `SELECT coalesce(string_agg(attname, ',' ORDER BY attnum), '') FROM pg_attribute
		WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped`, s.opts.Table)(&found)
	if err != nil {
		return s.explain(ctx, err)
	}

	const want = "name,rev,epoch,holder,incarnation,next,paused,record,written"
	switch {
	case found == "":
		return driver.Refused(fmt.Errorf("%s%w %s: create it with the statements of postgres.Schema", s.where(),
			ErrNoTable, s.opts.Table))
	case found != want:
		return driver.Refused(fmt.Errorf("%stable %s has the columns %s, want %s: it is not Regent's", s.where(),
			s.opts.Table, found, want))
	}

	if err := s.checkIndexes(ctx); err != nil {
		return err
	}
	return s.checkRights(ctx)
}

// errRecovery means that the server is a replica.
var errRecovery = errors.New("the server is a replica, which accepts no writes: name the primary, or all servers")

// ErrNoTable is returned by Open, with [Options].NoCreate, if the table was not created yet.
var ErrNoTable = errors.New("there is no table")

// DropEmpty drops the table if it has no registers, for a program that has used a table of its own for a while. The
// store cannot be used after that.
func (s *Store) DropEmpty(ctx context.Context) error {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf("drop table %s: %w", s.opts.Table, err)
	}
	defer done()

	s.dropped.Store(true) // and not created again
	// The lock comes before the question, so that nobody writes a register between them.
	err = s.db.exec(ctx, strings.ReplaceAll(`DO $$ BEGIN
		LOCK TABLE REGISTERS IN ACCESS EXCLUSIVE MODE;
		IF EXISTS (SELECT FROM REGISTERS) THEN RAISE EXCEPTION 'it has registers'; END IF;
		DROP TABLE REGISTERS;
	END $$`, "REGISTERS", s.table))
	if err != nil {
		s.dropped.Store(false)
		return fmt.Errorf("drop table %s: %w", s.opts.Table, s.explain(ctx, err))
	}
	return nil
}
