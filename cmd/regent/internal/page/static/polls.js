// The table of polls: their state, the last results, the next run, and run now.

import {$, attribute, cls, h, keyed, table, text} from './dom.js';
import {clock, seconds, span} from './format.js';
import {now, state} from './state.js';

const columns = [
  {title: 'Poll'}, {title: 'State'}, {title: 'Last results'}, {title: 'Latency', class: 'number'},
  {title: 'Next run', class: 'number'}, {title: 'Runs', class: 'number'}, {title: 'Action', class: 'actions'},
];

export class Polls {
  constructor(act) {
    this.act = act;
    this.table = table($('polls-body'), 'Polls', columns);
  }

  render() {
    const all = state.polls || [];
    text($('polls-count'), all.length || '');
    this.table.show(all, p => p.name, (r, p) => this.create(r, p), update, state.pollsProblem ||
      (state.polls ? 'No poll is defined. Polls are in the configuration file, or PUT to /v1/polls/NAME.' : 'Asking…'));
  }

  tick() {
    for (const r of this.table.body.children) text(r.cells[4], next(r.poll));
  }

  create(r, p) {
    attribute(r, 'data-poll', p.name);
    r.cells[0].append(h('strong'), h('span', {class: 'sub'}));
    r.cells[1].append(h('span'), h('span', {class: 'sub'}));
    r.runs = h('ol', {class: 'runs', role: 'list'});
    r.cells[2].append(r.runs);
    r.cells[6].append(h('button', {type: 'button', 'data-verb': 'run', 'aria-label': `Run now: ${p.name}`,
      onclick: () => this.act('run', p.name)}, 'Run now…'));
  }
}

function update(r, p) {
  r.poll = p;
  const last = p.runs[0];
  attribute(r, 'data-state', p.state);
  text(r.cells[0].firstChild, p.name);
  text(r.cells[0].lastChild, `${p.kind} ${p.target} · ${p.schedule}`);
  cls(r.cells[1].firstChild, `health ${p.enabled ? p.state : 'disabled'}`);
  text(r.cells[1].firstChild, p.enabled ? p.state : 'disabled');
  text(r.cells[1].lastChild, p.problem || (p.state === 'down' && last ? last.message : ''));
  keyed(r.runs, [...p.runs].reverse(), x => x.slot, () => h('li'), (li, x) => {
    cls(li, `run ${x.outcome}`);
    const what = `${x.outcome}, ${clock(x.at || x.due)}, ${span(x.latency)}, by ${x.worker || 'nobody'}, ` +
      `epoch ${x.epoch}${x.message ? `: ${x.message}` : ''}`;
    attribute(li, 'title', what);
    attribute(li, 'aria-label', what);
  });
  text(r.cells[3], last && last.latency !== undefined ? span(last.latency) : '—');
  text(r.cells[4], next(p));
  text(r.cells[5], counts(p.counts));
}

function next(p) {
  if (!p.enabled) return '—';
  if (p.running) return 'running';
  if (!p.next) return '—';
  const left = p.next - now();
  return left > 0 ? `in ${seconds(left + 999)}` : 'due';
}

function counts(c) {
  const total = Object.values(c).reduce((a, b) => a + b, 0);
  return `${(c.ok || 0).toLocaleString('en')} of ${total.toLocaleString('en')} ok`;
}
