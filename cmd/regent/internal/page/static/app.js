// Starts the page: asks the node, follows its events, and shows what it says.

import {$, attribute, cls, framed, h, keyed, still, text} from './dom.js';
import * as api from './api.js';
import {Actions} from './actions.js';
import {Elections} from './elections.js';
import {Events} from './events.js';
import {Latency} from './latency.js';
import {Members} from './members.js';
import {Polls} from './polls.js';
import {Stream} from './stream.js';
import {Tasks} from './tasks.js';
import {Timeline} from './timeline.js';
import {alarms, colourOf, leaderless, now, state, takeElections, takeEvent, takeHistory} from './state.js';
import {seconds, span} from './format.js';

const every = 2000;
const staleAfter = 6000;

const rests = new Map(); // until when a part is not asked again

const actions = new Actions(why => {
  if (why === 'token') stream.again();
  rests.clear();
  soon();
});
const act = (verb, name) => actions.open(verb, name);
const timeline = new Timeline({tip});
const elections = new Elections(act);
const members = new Members();
const polls = new Polls(act);
const tasks = new Tasks();
const latency = new Latency();
const events = new Events();

let streamState = 'connecting';
let askedAt = 0;

const stream = new Stream({
  open() { streamState = 'open'; note('', false); live(); },
  lost(why) { streamState = 'lost'; note(`The stream of events is lost (${why}): coming back…`, false); live(); },
  refused(r) {
    streamState = 'refused';
    note(r.status === 401 ? 'Events need the cluster’s token.' : `Events are refused: ${r.message}`, r.status === 401);
    live();
  },
  events(batch) {
    events.add(batch);
    let moved = false;
    for (const e of batch) moved = takeEvent(e) || moved;
    if (batch.some(e => /^(coordinator|member|poll|duty|cluster:node|cluster:part)/.test(e.kind))) soon();
    if (moved) draw();
  },
});

function note(what, wantsToken) {
  text($('events-note'), what);
  $('events-token').hidden = !wantsToken;
}

$('events-token').addEventListener('click', () => actions.askToken());

/** Draws all that depends on what the node says. */
const draw = framed(() => {
  strip();
  banners();
  legend();
  timeline.draw();
  elections.render();
  members.render();
  polls.render();
  tasks.render();
  latency.draw();
});

// Asking the node.

let asking = false;
let again = false;

/** Asks for everything. Each part is shown for itself: polls without a leader fail, and the rest does not. */
async function ask() {
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  askedAt = Date.now();
  const reached = await Promise.all([part(askStatus), part(askElections, 0), part(askMembers), part(askPolls),
    part(askFigures)]);
  asking = false;
  const problem = reached.find(r => r);
  if (reached.some(r => !r)) {
    state.answered = Date.now();
    state.failed = '';
  } else if (Date.now() - state.answered > staleAfter / 2 || !state.answered) {
    state.failed = `${state.status ? state.status.node : 'The node'} does not answer: ${state.answered
      ? 'the page shows what it said last' : problem}`;
  }
  draw();
  if (again) {
    again = false;
    soon();
  }
}

/**
 * Runs one part. It returns why the node was not reached; an answer that is an error is an answer. A part that takes
 * long rests for a few times as long, so that the page is never a load for the node. A list of the elections costs
 * the node little.
 */
async function part(f, times = 5) {
  const began = Date.now();
  if (began < rests.get(f)) return '';
  try {
    await f();
    const took = Date.now() - began;
    rests.set(f, took > every / 5 ? began + took * times : 0);
    return '';
  } catch (e) {
    return e instanceof api.Refused ? '' : e.message || String(e);
  }
}

async function askStatus() { state.status = await api.status(); }

async function askElections() {
  const many = state.elections.size === 0 || state.unread.size > 8; // then all are read with one request
  takeElections(await api.elections(many));
  draw();
  await readHistory();
}


async function askMembers() {
  const m = await api.members();
  state.members = m;
  for (const id of m.members.map(x => x.id).sort()) colourOf(id);
  members.sample();
}

async function askPolls() {
  try {
    state.polls = await api.polls();
    state.pollsProblem = '';
  } catch (e) {
    if (e instanceof api.Refused) {
      state.polls = state.polls || [];
      state.pollsProblem = e.message;
    }
    throw e;
  }
}

async function askFigures() {
  state.figures = await api.figures();
  latency.sample();
}

/** Reads the ended terms of the elections that have changed, three at a time. */
async function readHistory() {
  const queue = [...state.unread];
  const worker = async () => {
    for (let n = queue.shift(); n; n = queue.shift()) takeHistory(n[0], await api.history(n[0]), n[1]);
  };
  await Promise.all([worker(), worker(), worker()]);
}

let planned = 0;

/** Asks within a tenth of a second. */
function soon() {
  if (planned) return;
  planned = setTimeout(() => {
    planned = 0;
    ask();
  }, 100);
}

setInterval(() => {
  if (!document.hidden && Date.now() - askedAt >= every) ask();
}, 500);
document.addEventListener('visibilitychange', () => { if (!document.hidden) ask(); });

// The strip on top.

function strip() {
  const s = state.status;
  live();
  if (!s) return;
  document.title = title();
  text($('fact-node'), `${s.node} (${s.role})`);
  text($('fact-store'), s.store.address);
  text($('fact-latency'), s.store.reachable ? latencyText() : 'no answer');
  text($('fact-version'), s.version);
  const c = $('fact-cluster');
  text(c, s.cluster.status);
  cls(c, `health ${s.cluster.status}`);
  attribute(c, 'title', s.cluster.reasons.join('\n') || null);
}

function latencyText() {
  const f = state.figures;
  if (f && f.p50 > 0) return `${span(f.p50)} p50, ${span(f.p99)} p99`;
  return state.took === undefined ? '…' : span(state.took);
}

function title() {
  const vacant = [...state.elections.values()].filter(leaderless);
  if (vacant.length) return `⚠ nobody leads ${vacant[0].name} – Regent`;
  const e = state.elections.get(state.status.election);
  return e && e.leader ? `${e.leader} leads – Regent` : 'Regent';
}

function live() {
  const age = Date.now() - state.answered;
  const fresh = state.answered && age < staleAfter && !state.failed;
  const is = !state.answered ? 'starting' : !fresh ? 'stale' : streamState === 'lost' ? 'partial' : 'live';
  attribute($('live'), 'data-state', is);
  text($('live-text'), {starting: 'connecting', live: 'live', partial: 'live, without events',
    stale: `stale for ${seconds(age)}`}[is]);
}

function banners() {
  const all = alarms();
  const more = {kind: 'danger', id: 'more', text: `and ${all.length - 3} more`};
  const shown = all.length > 4 ? [...all.slice(0, 3), more] : all;
  const create = () => h('p', {}, h('strong'), h('span', {class: 'since', 'aria-hidden': 'true'}), h('strong'));
  keyed($('banners'), shown, a => a.id, create, (p, a) => {
    cls(p, `banner ${a.kind}`);
    text(p.firstChild, a.text);
    p.from = a.from;
    text(p.children[1], a.from ? ` for ${seconds(now() - a.from)}` : '');
    text(p.lastChild, a.after || '');
  });
}

/** The members that lead or led, in their colours. */
function legend() {
  const ids = new Set();
  for (const e of state.elections.values()) {
    if (e.holder) ids.add(e.holder);
    for (const t of state.terms.get(e.name) || []) ids.add(t.holder);
  }
  const shown = [...ids].sort().slice(0, 16);
  keyed($('legend'), shown, id => id, id => h('span', {class: `who ${colourOf(id)}`}, id), () => {});
}

/** Shows a few lines beside a part of the timeline. */
function tip(target, lines, box, x) {
  const t = $('tip');
  t.hidden = !target;
  if (!target) return;
  t.replaceChildren(...lines.map((l, i) => h(i ? 'span' : 'strong', {}, l)));
  const width = t.offsetWidth;
  const left = Math.min(innerWidth - width - 8, Math.max(8, x - width / 2));
  const above = box.top - t.offsetHeight - 8;
  t.style.transform = `translate(${left}px, ${above > 0 ? above : box.bottom + 8}px)`;
}

// What time alone changes.

let drawnTimeline = 0;

function tick(t) {
  requestAnimationFrame(tick);
  if (document.hidden || t - drawnTimeline < timeline.pace()) return;
  drawnTimeline = t;
  if (!timeline.end) timeline.render();
}

setInterval(() => {
  live();
  banners();
  elections.tick();
  polls.tick();
}, still.matches ? 1000 : 500);

ask().then(() => stream.start()); // members have their colours first
requestAnimationFrame(tick);
