// The table of members. Who leads is what the elections say, with the highest epoch: a member that has not noticed
// yet that it was replaced is not shown as a leader.

import {$, attribute, cls, h, keyed, table, text} from './dom.js';
import {span} from './format.js';
import {colourOf, state} from './state.js';

const columns = [
  {title: 'Member'}, {title: 'Role'}, {title: 'Health'}, {title: 'Heartbeats'}, {title: 'Last seen', class: 'number'},
  {title: 'Answer', class: 'number'}, {title: 'p50 / p99', class: 'number'}, {title: 'Version'},
];
const samples = 24;
const svg = 'http://www.w3.org/2000/svg';

export class Members {
  constructor() {
    this.table = table($('members-body'), 'Members', columns);
    this.filter = $('members-filter');
    this.filter.addEventListener('input', () => this.render());
    this.beats = new Map(); // by member: how old its heartbeat was at the last check, for each answer
  }

  /** Notes how old each heartbeat was when the leader last checked. */
  sample() {
    const ids = new Set();
    for (const m of state.members.members) {
      ids.add(m.id);
      const beats = this.beats.get(m.id) || [];
      beats.push(m.status === 'gone' || m.status === 'unreachable' ? Infinity : m.late);
      if (beats.length > samples) beats.shift();
      this.beats.set(m.id, beats);
    }
    for (const id of this.beats.keys()) if (!ids.has(id)) this.beats.delete(id);
  }

  render() {
    const all = state.members.members;
    this.filter.hidden = all.length < 9;
    const wanted = this.filter.value.trim().toLowerCase();
    const leads = leading();
    const shown = all.filter(m => !wanted || `${m.id} ${m.status} ${m.addr} ${m.region} ${m.version} ${m.why}`
      .toLowerCase().includes(wanted));
    text($('members-count'), wanted ? `${shown.length} of ${all.length}` : all.length || '');
    this.table.show(shown, m => m.id, (r, m) => create(r, m), (r, m) => this.update(r, m, leads),
      all.length ? 'No member matches.' : 'No member is known.');
    differences();
  }

  update(r, m, leads) {
    const [name, role, health] = r.cells;
    const own = leads.get(m.id) || [];
    attribute(r, 'data-status', m.status);
    cls(name.firstChild, `who ${colourOf(m.id)}`);
    text(name.firstChild, m.id);
    text(name.lastChild, [m.addr, m.region].filter(Boolean).join(' · '));
    const reported = m.role || (m.eligible ? 'candidate' : 'observer');
    const is = own.length ? 'leader' : reported === 'leader' ? 'standby' : reported;
    cls(role, `cell role ${is}`);
    text(role, own.length > 1 ? `leader of ${own.length}` : is);
    attribute(role, 'title', own.length ? `leads ${own.join(', ')}` : null);
    cls(health.firstChild, `health ${m.status}`);
    text(health.firstChild, m.status);
    text(health.lastChild, m.why);
    this.strip(r.strip, m);
    text(r.cells[4], m.seen < 0 ? 'never' : `${span(m.seen)} ago`);
    text(r.cells[5], m.latency < 0 ? 'none' : span(m.latency));
    text(r.cells[6], m.p50 > 0 ? `${span(m.p50)} / ${span(m.p99)}` : '—');
    text(r.cells[7], m.version || '—');
  }

  /** One bar for each answer: the longer, the older the heartbeat was; red if it had expired. */
  strip(e, m) {
    const lease = (state.figures && state.figures.lease) || 6000;
    const beats = this.beats.get(m.id) || [];
    let good = '';
    let bad = '';
    let none = '';
    beats.forEach((age, i) => {
      const x = (samples - beats.length + i) * 4;
      const height = Math.min(16, 3 + 13 * Math.max(0, age) / lease);
      const bar = `M${x} 16v${-height.toFixed(1)}h3v${height.toFixed(1)}z`;
      if (age < 0) none += bar; // nobody has seen it yet
      else if (age > lease) bad += bar;
      else good += bar;
    });
    [good, bad, none].forEach((d, i) => attribute(e.children[i], 'd', d));
  }
}

function create(r, m) {
  attribute(r, 'data-member', m.id);
  r.cells[0].append(h('span', {class: 'who'}), h('span', {class: 'sub'}));
  r.cells[2].append(h('span'), h('span', {class: 'sub'}));
  const s = document.createElementNS(svg, 'svg');
  s.setAttribute('viewBox', `0 0 ${samples * 4} 16`);
  s.setAttribute('class', 'beats');
  s.setAttribute('aria-hidden', 'true');
  for (const kind of ['good', 'bad', 'none']) {
    const p = document.createElementNS(svg, 'path');
    p.setAttribute('class', kind);
    s.append(p);
  }
  r.strip = s;
  r.cells[3].append(s);
}

/** The elections that each member leads. */
function leading() {
  const by = new Map();
  for (const e of state.elections.values()) {
    if (e.state !== 'led') continue;
    by.set(e.leader, [...(by.get(e.leader) || []), e.name]);
  }
  return by;
}

/** Members that are configured differently from the node that the page asks. */
function differences() {
  const all = state.status ? state.status.differs : [];
  keyed($('differs'), all, d => `${d.member} ${d.key}`, () => h('p', {class: 'note differs'}), (p, d) => {
    text(p, `${d.member} has ${d.key} ${d.theirs || 'not set'}; ${state.status.node} has ${d.own || 'not set'}` +
      `${d.text ? `: ${d.text}` : ''}`);
  });
}
