// What the page knows. Of two answers about an election the one with the higher epoch counts, whoever gave it: a
// failover never shows two leaders.

import {span} from './format.js';

const colours = 10; // as many as base.css has

export const state = {
  status: null,
  elections: new Map(), // by name
  terms: new Map(), // ended terms by election, the oldest first
  unread: new Map(), // elections whose ended terms have to be read, with the number of the change that they miss
  members: {known: false, status: 'unknown', reasons: [], members: []},
  polls: null,
  pollsProblem: '',
  figures: null,
  took: undefined, // how long the store took for the last list, in milliseconds
  rank: '',
  offset: 0, // of the node's clock against this one, in milliseconds
  answered: 0, // when the node last answered, on this clock
  failed: '', // why it does not
};

/** Now, by the node's clock: all times that the page shows are the node's. */
export function now() { return Date.now() + state.offset; }

const colour = new Map();

/** The class of a member's colour. It stays as it is while the page is open. */
export function colourOf(member) {
  if (!member) return 'm-none';
  if (!colour.has(member)) colour.set(member, colour.size % colours);
  return `m${colour.get(member)}`;
}

/** Takes what the node says about all elections. */
export function takeElections(answer) {
  state.offset = answer.now - Date.now();
  state.took = answer.took;
  state.rank = answer.rank;
  const names = new Set();
  for (const id of answer.elections.flatMap(e => e.candidates.map(c => c.id)).sort()) colourOf(id);
  for (const e of answer.elections) {
    names.add(e.name);
    const known = state.elections.get(e.name);
    if (known && known.epoch > e.epoch) continue; // it comes from the past
    if (!known || changed(known, e)) unread(e.name);
    if (known && known.vacantFrom && e.state !== 'led' && known.epoch === e.epoch) e.vacantFrom = known.vacantFrom;
    else if (e.state !== 'led') e.vacantFrom = endOf(e);
    state.elections.set(e.name, e);
    if (e.terms) takeHistory(e.name, e.terms, state.unread.get(e.name));
  }
  for (const name of state.elections.keys()) {
    if (names.has(name)) continue;
    state.elections.delete(name);
    state.terms.delete(name);
    state.unread.delete(name);
  }
}

let changes = 0;

function unread(name) { state.unread.set(name, ++changes); }

function changed(a, b) { return a.epoch !== b.epoch || a.state !== b.state || a.leader !== b.leader; }

/** Whether somebody should lead and nobody does: that the work of an election has finished is no fault. */
export function leaderless(e) { return e.state !== 'led' && e.state !== 'finished'; }

/** When the last term ended, of an election that nobody leads. */
function endOf(e) {
  if (e.state === 'expired' && e.heartbeat !== undefined) return e.asOf - Math.max(0, e.heartbeat - e.lease);
  if (e.state !== 'expired' && e.why && e.why.ended) return e.why.ended;
  return e.asOf;
}

/** Takes an event that says who leads, so that the page shows it before it asks again. */
export function takeEvent(e) {
  const known = e.election && state.elections.get(e.election);
  if (!known) return false;
  const leader = e.kind === 'coordinator:became_leader' ? e.node
    : e.kind === 'coordinator:leader_changed' ? e.metadata.new_leader : '';
  if (leader && e.epoch > known.epoch) {
    end(known, e.metadata.previous_reason, e.time);
    Object.assign(known, {epoch: e.epoch, leader, holder: leader, state: 'led', since: e.time, vacantFrom: undefined,
      remaining: known.lease, asOf: e.time, next: ''});
    unread(known.name);
    return true;
  }
  return leader !== '' || e.kind === 'coordinator:lost_leadership';
}

/** Adds the term that was the current one to those that have ended, until they are read. */
function end(e, why, when) {
  if (!e.holder || !e.since) return;
  const terms = state.terms.get(e.name) || [];
  if (terms.some(t => t.epoch === e.epoch)) return;
  const ended = Math.min(e.vacantFrom || when, when);
  state.terms.set(e.name, [...terms, {epoch: e.epoch, holder: e.holder, began: e.since, ended, reason: why || ''}]);
}

/** Takes the ended terms of an election, which were asked for after the change with a number. */
export function takeHistory(name, terms, change) {
  const known = state.elections.get(name);
  if (!known) return;
  if (state.unread.get(name) === change) state.unread.delete(name); // else it has changed since
  const newest = state.terms.get(name) || [];
  const last = terms.length ? terms[terms.length - 1].epoch : 0;
  state.terms.set(name, [...terms, ...newest.filter(t => t.epoch > last && t.epoch < known.epoch)]);
}

/** The parts of an election's lane: terms and the gaps between them, the oldest first. */
export function lane(e) {
  const parts = [];
  let before;
  for (const t of state.terms.get(e.name) || []) {
    if (t.epoch > e.epoch || (t.epoch === e.epoch && e.state === 'led')) continue;
    if (before && t.began > before.ended) parts.push(gap(before, t.began, t.epoch));
    parts.push({kind: 'term', ...t});
    before = t;
  }
  const current = e.state === 'led' || !parts.some(p => p.epoch === e.epoch);
  if (current && e.holder && e.since) {
    if (before && e.since > before.ended) parts.push(gap(before, e.since, e.epoch));
    before = {epoch: e.epoch, holder: e.holder, began: e.since, ended: e.state === 'led' ? undefined : e.vacantFrom,
      reason: e.state === 'led' ? '' : 'expired'};
    parts.push({kind: 'term', ...before});
  }
  if (leaderless(e) && before) parts.push(gap(before, undefined, 0));
  return parts;
}

function gap(before, until, epoch) {
  return {kind: 'gap', epoch: before.epoch, holder: before.holder, next: epoch, began: before.ended, ended: until,
    reason: before.reason};
}

/** What an operator must not overlook. */
export function alarms() {
  const all = [];
  if (state.failed) all.push({kind: 'danger', id: 'stale', text: state.failed});
  for (const e of state.elections.values()) {
    if (leaderless(e)) {
      all.push({kind: 'danger', id: `leaderless ${e.name}`, election: e.name, from: e.vacantFrom,
        text: `Nobody leads ${e.name}`, after: e.paused ? `: it is paused; resume it, and a candidate claims it` : ''});
    } else if (e.paused && e.state === 'led') {
      all.push({kind: 'warning', id: `paused ${e.name}`, election: e.name,
        text: `${e.name} is paused: ${e.leader} goes on, and nobody takes over if it fails`});
    }
  }
  const s = state.status;
  if (s && !s.store.reachable) {
    const why = s.store.error || `no answer for ${span(s.store.answered)}`;
    all.push({kind: 'danger', id: 'store', text: `The store does not answer ${s.node}: ${why}`});
  } else if (s && !s.store.writable) {
    all.push({kind: 'danger', id: 'store', text: `The store accepts no writes of ${s.node}: ${s.store.error}`});
  }
  if (s && s.store.behind) {
    all.push({kind: 'danger', id: 'behind', text: 'The store has lost writes: it shows a lower epoch than before'});
  }
  return all;
}
