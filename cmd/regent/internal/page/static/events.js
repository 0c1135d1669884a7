// The log of events: the newest first, with a filter, a link to each event, and a note where events were lost. Only
// the rows that can be seen are in the document.

import {$, attribute, cls, framed, h, keyed, text} from './dom.js';
import {moment, plural, reason} from './format.js';
import {colourOf, now} from './state.js';

const most = 5000;
const bad = new Set(['store:regressed', 'register:unreadable', 'member:dropped', 'duty:stuck', 'duty:failed',
  'candidate:restarted', 'observer:panicked', 'cluster:node_down', 'cluster:partition', 'stream:gap', 'poll:missed',
  'contention:detected', 'member:waiting', 'member:config_differs']);

export class Events {
  constructor() {
    this.all = []; // the oldest first
    this.shown = []; // those that the filter lets through, the newest first
    this.at = -1; // the row that the keyboard is on
    this.top = 0;
    this.visible = 92; // how high the list is, in pixels
    this.list = $('events-list');
    this.space = h('div', {class: 'log-space', role: 'presentation'});
    this.list.append(this.space);
    this.filter = $('events-filter');
    this.filter.addEventListener('input', () => this.refilter());
    this.draw = framed(() => this.render());
    this.list.addEventListener('scroll', () => this.scrolled(), {passive: true});
    this.list.addEventListener('keydown', e => this.key(e));
    this.list.addEventListener('click', e => this.click(e));
    addEventListener('hashchange', () => this.follow());
    addEventListener('resize', () => this.measure());
    this.measure();
  }

  // Sizes are read here alone: to read them while the document changes would make the browser lay it out again.

  measure() {
    this.height = matchMedia('(max-width: 640px)').matches ? 50 : 30;
    this.draw();
  }

  scrolled() {
    this.top = this.list.scrollTop;
    this.draw();
  }

  scrollTo(top) {
    this.top = top;
    this.list.scrollTop = top;
  }

  /** Takes events, in their order. A hole between their numbers means that events were lost. */
  add(batch) {
    for (const e of batch) {
      const last = this.all[this.all.length - 1];
      if (e.kind !== 'stream:gap' && last && last.seq && last.run === run(e) && e.seq > last.seq + 1) {
        this.push(lost(`${plural(e.seq - last.seq - 1, 'event')} lost: this page, or the node, was too slow`, e.time));
      }
      this.push(e);
    }
    if (this.all.length > most) this.all.splice(0, this.all.length - most);
    this.refilter();
    if (!this.followed) this.follow();
  }

  push(e) {
    e.run = run(e);
    e.text = sentence(e);
    e.search = `${e.kind} ${e.node} ${e.election} epoch ${e.epoch} ${e.text} ${Object.values(e.metadata).join(' ')}`
      .toLowerCase();
    this.all.push(e);
  }

  refilter() {
    const words = this.filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const selected = this.shown[this.at];
    const pinned = this.top < 4; // at the newest: stay there
    const before = this.shown.length;
    this.shown = this.all.filter(e => words.every(w => e.search.includes(w))).reverse();
    this.at = selected ? this.shown.indexOf(selected) : -1;
    if (!pinned && !words.length) this.scrollTo(this.top + (this.shown.length - before) * this.height);
    text($('events-count'), words.length ? `${this.shown.length} of ${this.all.length}` : this.all.length || '');
    this.draw();
  }

  render() {
    const height = this.height;
    this.space.style.height = `${Math.max(1, this.shown.length) * height}px`;
    this.visible = Math.min(360, Math.max(3, this.shown.length) * height + 2);
    if (this.list.style.height !== `${this.visible}px`) this.list.style.height = `${this.visible}px`;
    const first = Math.max(0, Math.floor(this.top / height) - 4);
    const count = Math.ceil(this.visible / height) + 8;
    const items = this.shown.slice(first, first + count).map((e, i) => ({e, at: first + i}));
    keyed(this.space, items, i => i.e, makeRow, (row, i) => this.row(row, i, height));
    attribute(this.list, 'aria-activedescendant', this.at >= 0 ? `event-${this.at}` : null);
    attribute(this.list, 'data-empty', this.shown.length ? null
      : this.all.length ? 'No event matches the filter.' : 'No events yet.');
  }

  row(row, {e, at}, height) {
    row.style.transform = `translateY(${at * height}px)`;
    attribute(row, 'id', `event-${at}`);
    attribute(row, 'aria-setsize', this.shown.length);
    attribute(row, 'aria-posinset', at + 1);
    attribute(row, 'aria-selected', String(at === this.at));
  }

  key(e) {
    const page = Math.max(1, Math.floor(this.visible / this.height) - 1);
    const move = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity}[e.key];
    if (move === undefined) {
      if (e.key === 'Escape') this.select(-1);
      return;
    }
    e.preventDefault();
    this.select(Math.min(this.shown.length - 1, Math.max(0, this.at + move)));
  }

  click(e) {
    const row = e.target.closest('.event');
    if (row) this.select(Number(row.id.slice(6)));
  }

  /** Selects a row, shows all of it and makes the address of the page a link to it. */
  select(at, scroll = true) {
    this.at = at;
    const e = this.shown[at];
    if (e && scroll) {
      const top = at * this.height;
      this.scrollTo(Math.max(top + this.height + 2 - this.visible, Math.min(top, this.top)));
    }
    if (e && e.id) history.replaceState(null, '', `#event=${encodeURIComponent(e.id)}`);
    else if (!e && location.hash.startsWith('#event=')) history.replaceState(null, '', location.pathname);
    this.detail(e);
    this.render();
  }

  /** Goes to the event that the address names. */
  follow() {
    const m = location.hash.match(/^#event=(.+)$/);
    if (!m) return;
    const id = decodeURIComponent(m[1]);
    let at = this.shown.findIndex(e => e.id === id);
    if (at < 0 && this.all.some(e => e.id === id)) {
      this.filter.value = '';
      this.refilter();
      at = this.shown.findIndex(e => e.id === id);
    }
    if (at < 0) {
      if (this.all.length) this.missing(id);
      return;
    }
    this.followed = true;
    this.select(at);
    $('events').scrollIntoView({block: 'nearest'});
  }

  missing(id) {
    const box = $('event-detail');
    box.hidden = false;
    box.replaceChildren(h('p', {class: 'note'}, `Event ${id} is not among those that the node keeps.`));
  }

  detail(e) {
    const box = $('event-detail');
    box.hidden = !e;
    if (!e) return;
    const rows = [['time', new Date(e.time).toISOString()], ['kind', e.kind], ['node', e.node],
      ['election', e.election], ['epoch', e.epoch], ['seq', e.seq], ...Object.entries(e.metadata),
      ...Object.entries(e.measurements).filter(([k]) => k !== 'time')];
    const link = e.id ? h('a', {href: `#event=${encodeURIComponent(e.id)}`}, 'Link to this event') : null;
    box.replaceChildren(h('p', {}, h('strong', {}, e.text), ' ', link),
      h('dl', {class: 'pairs'}, ...rows.filter(r => r[1] !== undefined && r[1] !== '')
        .map(([k, v]) => h('div', {}, h('dt', {}, k), h('dd', {}, String(v))))));
  }
}

function makeRow({e}) {
  const gap = e.kind === 'stream:gap';
  return h('div', {class: `event${bad.has(e.kind) ? ' bad' : ''}${gap ? ' hole' : ''}`, role: 'option'},
    h('time', {}, moment(e.time, now(), true)),
    h('span', {class: `who ${colourOf(e.node)}`}, e.node),
    h('span', {class: 'kind'}, gap ? 'events lost' : e.kind),
    h('span', {class: 'epoch'}, e.epoch ? `epoch ${e.epoch}` : ''),
    h('span', {class: 'what'}, e.text));
}

/** The run of the node that an event comes from: numbers begin again with each. */
function run(e) { return e.id ? e.id.slice(0, e.id.lastIndexOf('-')) : ''; }

function lost(why, at) {
  return {id: '', seq: 0, time: at, kind: 'stream:gap', node: '', election: '', measurements: {},
    metadata: {reason: why}};
}

/** An event as a short sentence. Kinds that the page does not know show their fields. */
function sentence(e) {
  const m = e.metadata;
  const known = {
    'coordinator:became_leader': () => `${e.node} leads ${e.election}${m.previous_leader
      ? ` after ${m.previous_leader}: ${reason(m.previous_reason)}` : ''}`,
    'coordinator:lost_leadership': () => `term of ${e.node} in ${e.election} ended: ${reason(m.reason)}`,
    'coordinator:leader_changed': () => `${m.new_leader} leads ${e.election}${m.previous_leader
      ? ` after ${m.previous_leader}: ${reason(m.previous_reason)}` : ''}`,
    'member:joined': () => `${e.node} joined`,
    'member:left': () => `${e.node} left`,
    'member:started': () => `${e.node} started`,
    'member:dropped': () => `${e.node} lost its heartbeat: ${m.reason || m.error || ''}`,
    'cluster:node_up': () => `${m.member} is ${m.to}, was ${m.from}`,
    'cluster:node_down': () => `${m.member} is ${m.to}: ${m.why || ''}`,
    'cluster:partition': () => `${m.member} heartbeats, but cannot be reached: ${m.why || ''}`,
    'poll:changed': () => `${m.poll} is ${m.to}, was ${m.from}${m.message ? `: ${m.message}` : ''}`,
    'duty:failed': () => `duty ${m.duty} failed: ${m.error}`,
    'cluster:health_check': () => `cluster is ${m.status}${m.reasons ? `: ${m.reasons}` : ''}`,
    'stream:gap': () => m.reason,
  }[e.kind];
  return known ? known() : Object.entries(m).map(([k, v]) => `${k} ${v}`).join(', ');
}
