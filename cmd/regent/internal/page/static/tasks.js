// What the worker of this node has done and refused, and the duties of this node.

import {$, cls, h, keyed, table, text} from './dom.js';
import {clock, plural, span} from './format.js';
import {now, state} from './state.js';

export class Tasks {
  constructor() {
    this.refusals = table($('refusals-body'), 'Refusals', [{title: 'When'}, {title: 'Refused'},
      {title: 'Its epoch', class: 'number'}, {title: 'Newest seen', class: 'number'}]);
    this.duties = table($('duties-body'), 'Duties',
      [{title: 'Duty'}, {title: 'State'}, {title: 'Failures', class: 'number'}, {title: 'Last error'}]);
  }

  render() {
    const f = state.figures;
    const s = state.status;
    if (!f || !s) return;
    text($('tasks-hint'), `of ${s.node}`);
    const t = f.tasks;
    const done = t ? t.outcomes.done || 0 : 0;
    const failed = t ? (t.outcomes.failed || 0) + (t.outcomes.expired || 0) + (t.outcomes.interrupted || 0) : 0;
    const items = t ? [
      ['done', done, ''], ['failed', failed, failed ? 'bad' : ''], ['refused as stale', t.stale, t.stale ? 'bad' : ''],
      ['late, within the grace', t.late, ''], ['running', t.running + t.waiting, ''],
    ] : [['this node takes no tasks: worker is false', '—', '']];
    keyed($('tasks-body'), [items], () => 'all', () => h('dl', {class: 'numbers'}), (dl, all) => {
      keyed(dl, all, i => i[0], i => h('div', {}, h('dt', {}, i[0]), h('dd')), (d, i) => {
        cls(d, i[2]);
        text(d.lastChild, i[1].toLocaleString('en'));
      });
    });
    this.refusals.show(f.refusals, r => `${r.at} ${r.epoch}`, () => {}, (r, x) => {
      text(r.cells[0], `${clock(x.at, true)}, ${span(now() - x.at)} ago`);
      text(r.cells[1], `${x.tasks ? plural(x.tasks, 'task') : 'a query'} of ${x.leader}`);
      text(r.cells[2], x.epoch);
      text(r.cells[3], x.newest);
    }, t && t.stale ? `${plural(t.stale, 'task')} of former leaders.` : 'None: no former leader has sent a task here.');
    this.duties.show(f.duties, d => `${d.election} ${d.name}`, r => {
      r.cells[1].append(h('span'));
    }, (r, d) => duty(r, d), 'This node has no duties.');
  }
}

function duty(r, d) {
  text(r.cells[0], d.name);
  const what = d.running ? 'running' : d.inARow > 0 ? 'failing' : 'standing by';
  cls(r.cells[1].firstChild, `health ${d.running ? 'up' : d.inARow > 0 ? 'down' : 'unknown'}`);
  text(r.cells[1].firstChild, d.running && d.started ? `${what} for ${span(now() - d.started)}` : what);
  text(r.cells[2], d.failures);
  text(r.cells[3], d.error ? `${d.error}${d.failed ? `, ${span(now() - d.failed)} ago` : ''}` : '—');
}
