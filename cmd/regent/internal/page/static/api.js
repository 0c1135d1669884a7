// What the node answers, in the form that the page uses. No other module knows the names of fields of the API.

import {span} from './format.js';

let token = '';

/** Keeps the token, in memory alone. */
export function setToken(text) { token = text; }
export function hasToken() { return token !== ''; }

/** An answer that is an error: its status, the stable code, the text for people, and the epoch where that helps. */
export class Refused extends Error {
  constructor(status, body) {
    super(body.error || `the node answered ${status}`);
    this.status = status;
    this.code = body.code || '';
    this.epoch = body.epoch;
  }
}

function headers(extra) {
  return token ? {...extra, Authorization: `Bearer ${token}`} : {...extra};
}

async function body(response) {
  try {
    return await response.json();
  } catch {
    return {};
  }
}

/** Asks for JSON. It rejects with Refused if the node answers with an error, and with another error if it does not. */
async function get(path, timeout = 8000) {
  const response = await fetch(path, {headers: headers({Accept: 'application/json'}), cache: 'no-store',
    signal: AbortSignal.timeout(timeout)});
  if (!response.ok) throw new Refused(response.status, await body(response));
  return response.json();
}

async function post(path, content) {
  const response = await fetch(path, {method: 'POST', headers: headers({'Content-Type': 'application/json'}),
    body: JSON.stringify(content), signal: AbortSignal.timeout(45000)});
  const answer = await body(response);
  if (!response.ok) throw new Refused(response.status, answer);
  return answer;
}

const time = text => (text ? Date.parse(text) : undefined);
const name = encodeURIComponent;

export async function status() {
  const s = await get('/v1/status');
  return {
    node: s.node, role: s.role, leader: s.leader, epoch: s.epoch, election: s.election, version: s.version,
    store: {
      address: s.store.address, reachable: s.store.reachable, writable: s.store.writable, behind: s.store.behind,
      error: s.store.error || s.store.writeError || '', answered: s.store.answeredMs,
    },
    checks: s.checks || {}, differs: s.differs || [],
    cluster: s.cluster || {status: 'unknown', reasons: [], counts: {}},
  };
}

function term(t) {
  return {epoch: t.epoch, holder: t.holder, began: time(t.began), ended: time(t.ended), reason: t.reason};
}

function candidate(c) {
  return {id: c.id, rank: c.rank, leads: !!c.leads, canLead: c.canLead, why: c.why || '', region: c.region || ''};
}

function election(e, asOf) {
  return {
    name: e.name, state: e.finished ? 'finished' : e.state, leader: e.leader || '',
    holder: e.holder || e.leader || '', epoch: e.epoch, since: time(e.since), paused: e.paused, next: e.next || '',
    lease: e.leaseDurationMs, remaining: e.leaseRemainingMs, heartbeat: e.heartbeatAgeMs, asOf,
    why: e.why ? {previous: e.why.previous, reason: e.why.reason, ended: time(e.why.ended), text: e.why.text} : null,
    candidates: (e.candidates || []).map(candidate), candidateCount: e.candidateCount || 0,
    terms: e.terms ? e.terms.map(term) : null,
  };
}

/** All elections that the store has, and the node's time; with their ended terms if those are wanted. */
export async function elections(terms) {
  const all = [];
  let first;
  for (let after = ''; ;) {
    const more = `${terms ? '&history=1' : ''}${after ? `&after=${name(after)}` : ''}`;
    const page = await get(`/v1/elections?candidates=12${more}`);
    const now = time(page.asOf) + page.ageMs;
    first = first || {now, took: page.tookMs, total: page.total, rank: page.rank, unreadable: page.unreadable || []};
    all.push(...page.elections.map(e => election(e, now)));
    if (!page.next || all.length >= 2000) return {...first, elections: all};
    after = page.next;
  }
}

/** The terms of an election that have ended, the oldest first. */
export async function history(electionName) {
  const h = await get(`/v1/elections/${name(electionName)}/history`);
  return h.terms.map(term);
}

export async function members() {
  const c = await get('/v1/members');
  return {
    known: c.known, status: c.status, reasons: c.reasons || [], counts: c.counts, epoch: c.epoch || 0,
    members: c.members.map(m => ({
      id: m.id, addr: m.addr || '', status: m.status, why: m.why || '', role: m.role || '', version: m.version || '',
      region: m.region || '', labels: m.labels || {}, eligible: m.eligible, healthy: m.healthy,
      seen: m.lastSeenMs, late: m.lastSeenMs < 0 ? -1 : Math.max(0, m.lastSeenMs - c.checkedAgoMs),
      latency: m.probeLatencyMs, since: time(m.since), p50: m.heartbeatP50Ms, p99: m.heartbeatP99Ms,
    })),
  };
}

function run(r) {
  return {slot: r.slot, due: time(r.due), at: time(r.at), worker: r.worker || '', epoch: r.epoch, outcome: r.outcome,
    message: r.message || '', latency: r.latencyMs, attempts: r.attempts};
}

export async function polls() {
  const p = await get('/v1/polls?results=1');
  return p.polls.map(v => ({
    name: v.name, kind: v.kind, target: v.target, schedule: v.intervalMs ? `every ${span(v.intervalMs)}` : v.cron,
    enabled: v.enabled, state: v.state, since: time(v.stateSince), next: time(v.next), running: v.running,
    problem: v.problem || '', counts: v.counts || {}, runs: (v.results || []).map(run),
  }));
}

/** Figures of the node itself: heartbeats, its worker, its duties. */
export async function figures() {
  const f = await get('/v1/metrics');
  return {
    heartbeats: f.heartbeats, p50: f.heartbeatLatencyP50, p99: f.heartbeatLatencyP99, failures: f.renewFailures,
    lostEvents: f.lostEvents, lease: f.leaseDurationMs, interval: f.heartbeatIntervalMs, lostAt: f.leaseLostAtMs,
    tasks: f.tasks ? {
      taken: f.tasks.taken, stale: f.tasks.stale, late: f.tasks.late, busy: f.tasks.busy, running: f.tasks.running,
      waiting: f.tasks.waiting, outcomes: f.tasks.outcomes || {}, duplicates: f.tasks.duplicates,
    } : null,
    refusals: (f.refusals || []).map(r => ({at: time(r.at), leader: r.leader, epoch: r.epoch,
      newest: r.newest, tasks: r.tasks})),
    duties: (f.duties || []).map(d => ({name: d.name, election: d.election, running: d.running,
      started: time(d.started), failures: d.failures, inARow: d.inARow, error: d.lastError, failed: time(d.failedAt)})),
  };
}

/** An event of the stream. */
export function event(id, text) {
  const e = JSON.parse(text);
  return {id, seq: e.seq, time: time(e.time), kind: e.kind, node: e.node || '', election: e.election || '',
    epoch: e.epoch, measurements: e.measurements || {}, metadata: e.metadata || {}};
}

/** Opens the stream of events after the event with an ID. */
export function openEvents(last, signal) {
  const extra = last ? {'Last-Event-ID': last} : {};
  return fetch('/v1/events', {headers: headers({Accept: 'text/event-stream', ...extra}), cache: 'no-store', signal});
}

export async function refusal(response) { return new Refused(response.status, await body(response)); }

/** Asks the leader for a verb: handoff, step-down, pause or resume. */
export function verb(electionName, what, epoch, to) {
  return post(`/v1/elections/${name(electionName)}/${what}`, to ? {epoch, to} : {epoch});
}

/** Runs a poll now. */
export async function runPoll(poll, epoch) { return run(await post(`/v1/polls/${name(poll)}/run`, {epoch})); }
