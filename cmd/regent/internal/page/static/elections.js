// The table of elections: who leads, since when, what is left of the lease, who would follow, and why the last term
// ended.

import {$, attribute, cls, h, keyed, still, table, text} from './dom.js';
import {plural, seconds, span} from './format.js';
import {colourOf, leaderless, now, state} from './state.js';

const columns = [
  {title: 'Election'}, {title: 'Leader'}, {title: 'Epoch', class: 'number'}, {title: 'Term', class: 'number'},
  {title: 'Lease'}, {title: 'Candidates by rank'}, {title: 'Last change'}, {title: 'Actions', class: 'actions'},
];

export class Elections {
  constructor(act) {
    this.act = act;
    this.table = table($('elections-body'), 'Elections', columns);
    this.shrinking = []; // bars of leases that begin to shrink in the next frame
    this.filter = $('elections-filter');
    this.filter.addEventListener('input', () => this.render());
  }

  render() {
    const own = state.status ? state.status.election : '';
    const all = [...state.elections.values()]
      .sort((a, b) => (b.name === own) - (a.name === own) || (a.name < b.name ? -1 : 1));
    this.filter.hidden = all.length < 9;
    const wanted = this.filter.value.trim().toLowerCase();
    const shown = all.filter(e => !wanted || `${e.name} ${e.leader} ${e.state}`.toLowerCase().includes(wanted));
    text($('elections-count'), wanted ? `${shown.length} of ${all.length}` : all.length || '');
    this.table.show(shown, e => e.name, (r, e) => this.create(r, e), (r, e) => this.update(r, e),
      all.length ? 'No election matches.' : 'The store has no election yet.');
  }

  /** Only what time changes: ages of terms and what is left of leases. */
  tick() {
    for (const r of this.table.body.children) {
      const e = state.elections.get(r.name);
      if (!e) continue;
      text(r.age, age(e));
      if (e.state === 'led' && e.remaining !== undefined) text(r.left, left(e));
    }
  }

  create(r, e) {
    const [name, leader, epoch, term, lease, candidates, why, actions] = r.cells;
    r.name = e.name;
    attribute(r, 'data-election', e.name);
    name.append(h('strong'), h('span', {class: 'tag paused', hidden: true}, 'paused'));
    leader.append(h('span', {class: 'who'}));
    r.age = term;
    r.epoch = epoch;
    r.bar = h('div', {class: 'lease-fill'});
    r.left = h('span', {class: 'lease-text'});
    lease.append(h('div', {class: 'lease', 'aria-hidden': 'true'}, r.bar), r.left);
    r.candidates = h('ol', {class: 'candidates', role: 'list'});
    candidates.append(r.candidates);
    r.why = why;
    const button = (what, label) => h('button', {type: 'button', 'data-verb': what,
      onclick: () => this.act(what, r.name)}, label);
    r.buttons = {
      handoff: button('handoff', 'Hand over…'), 'step-down': button('step-down', 'Step down…'),
      pause: button('pause', 'Pause…'), resume: button('resume', 'Resume…'),
    };
    actions.append(...Object.values(r.buttons));
  }

  update(r, e) {
    const led = e.state === 'led';
    attribute(r, 'data-state', e.state);
    text(r.cells[0].firstChild, e.name);
    r.cells[0].lastChild.hidden = !e.paused;
    const who = r.cells[1].firstChild;
    cls(who, led ? `who ${colourOf(e.leader)}` : leaderless(e) ? 'who nobody' : 'who m-none');
    text(who, led ? e.leader : 'nobody');
    attribute(who, 'title', e.leader || null);
    text(r.epoch, e.epoch);
    text(r.age, age(e));
    text(r.why, e.why ? e.why.text : '—');
    this.lease(r, e);
    this.list(r.candidates, e);
    r.buttons.handoff.disabled = !led || e.paused;
    r.buttons['step-down'].disabled = !led;
    r.buttons.pause.hidden = e.paused;
    r.buttons.resume.hidden = !e.paused;
    for (const [what, b] of Object.entries(r.buttons)) {
      attribute(b, 'aria-label', `${b.textContent.replace('…', '')} ${e.name}`);
      if (what === 'handoff') attribute(b, 'title', e.paused ? 'A paused election cannot be handed over' : null);
    }
  }

  /** The bar shrinks by itself until the node is asked again: what is left, not what the leader hopes for. */
  lease(r, e) {
    if (e.state !== 'led' || e.remaining === undefined) {
      text(r.left, e.state === 'led' ? '…' : 'none');
      r.bar.style.transition = 'none';
      r.bar.style.transform = 'scaleX(0)';
      return;
    }
    text(r.left, left(e));
    if (r.shown === e.asOf) return;
    r.shown = e.asOf;
    const rest = remaining(e);
    const part = Math.min(1, rest / e.lease);
    cls(r.bar, `lease-fill${part < 0.34 ? ' low' : ''}`);
    r.bar.style.transition = 'none';
    r.bar.style.transform = `scaleX(${part.toFixed(3)})`;
    if (still.matches) return;
    if (this.shrinking.push({bar: r.bar, rest}) === 1) { // all bars in the same frame
      requestAnimationFrame(() => requestAnimationFrame(() => this.shrink()));
    }
  }

  /** Lets the bars shrink that were set anew. */
  shrink() {
    for (const {bar, rest} of this.shrinking.splice(0)) {
      bar.style.transition = `transform ${Math.round(rest)}ms linear`;
      bar.style.transform = 'scaleX(0)';
    }
  }

  list(parent, e) {
    const shown = e.candidates.slice(0, 6);
    const more = e.candidateCount - shown.length;
    const ranked = new Set(e.candidates.map(c => c.rank).filter(Boolean)).size > 1; // else neither is preferred
    const items = more > 0 ? [...shown, {id: '', more}] : shown;
    const create = () => h('li', {}, h('span', {class: 'rank'}), h('span', {class: 'name'}));
    keyed(parent, items, c => c.id, create, (li, c) => {
      if (c.more) {
        text(li.lastChild, `and ${plural(c.more, 'other')}`);
        return;
      }
      cls(li, `${c.leads ? 'leads' : ''}${c.canLead ? '' : ' cannot'}`);
      text(li.firstChild, c.canLead && ranked ? c.rank : '');
      text(li.lastChild, c.id);
      const what = `${c.leads ? 'leads now, ' : ''}${c.canLead ? `rank ${c.rank}` : `cannot lead: ${c.why}`}`;
      attribute(li, 'title', what);
      attribute(li, 'aria-label', `${c.id}: ${what}`);
    });
  }
}

/** What is left of the lease, in milliseconds, unless a heartbeat has come since. */
function remaining(e) { return Math.max(0, e.remaining - (now() - e.asOf)); }

function left(e) { return `${(remaining(e) / 1000).toFixed(1)} of ${span(e.lease)}`; }

function age(e) {
  if (e.state === 'led') return e.since ? seconds(now() - e.since) : '—';
  if (e.state === 'finished') return 'finished';
  return e.vacantFrom ? `vacant ${seconds(now() - e.vacantFrom)}` : 'vacant';
}
