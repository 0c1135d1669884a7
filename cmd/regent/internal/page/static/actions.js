// The dialogs: what an action will do, the same as a command, and the token.

import {$, h, text} from './dom.js';
import * as api from './api.js';
import {state} from './state.js';

/** Quotes a word for a shell if it needs that. */
function word(w) { return /^[\w@%+=:,./-]+$/.test(w) ? w : `'${w.replaceAll("'", `'\\''`)}'`; }

const verbs = {
  handoff: {
    title: e => `Hand over ${e.name}`,
    what: (e, to) => `${e.leader} stops its duties and releases ${e.name}; ${to} claims it next, in epoch ` +
      `${e.epoch + 1}. If ${to} does not, another candidate may.`,
    command: (e, to) => `regent handoff ${word(e.name)} --to ${word(to || 'MEMBER')}`,
    go: 'Hand over',
  },
  'step-down': {
    title: e => `Step down from ${e.name}`,
    what: e => e.paused
      ? `${e.leader} stops its duties and releases ${e.name}. It is paused: nobody leads it until it is resumed.`
      : `${e.leader} stops its duties and releases ${e.name}. The candidate with the best rank claims it, in ` +
        `epoch ${e.epoch + 1}.`,
    command: e => `regent step-down ${word(e.name)}`,
    go: 'Step down', danger: true,
  },
  pause: {
    title: e => `Pause ${e.name}`,
    what: e => e.leader ? `${e.leader} goes on leading ${e.name}. If it fails, nobody takes over until you resume.`
      : `Nobody claims ${e.name} until you resume it.`,
    command: e => `regent pause ${word(e.name)}`,
    go: 'Pause', danger: true,
  },
  resume: {
    title: e => `Resume ${e.name}`,
    what: e => `Candidates may claim ${e.name} again` +
      `${e.leader ? ` if ${e.leader} fails` : ', and one of them will now'}.`,
    command: e => `regent resume ${word(e.name)}`,
    go: 'Resume',
  },
  run: {
    title: e => `Run ${e.poll} now`,
    what: e => `${e.leader || 'The leader'} gives ${e.poll} to a worker at once, beside its schedule.`,
    command: e => `regent polls run ${word(e.poll)}`,
    go: 'Run now',
  },
};

export class Actions {
  constructor(done) {
    this.done = done;
    this.dialog = $('action-dialog');
    $('action-cancel').addEventListener('click', () => this.dialog.close());
    $('action-to').addEventListener('change', () => this.show());
    $('action-copy').addEventListener('click', () => this.copy());
    $('action-form').addEventListener('submit', e => {
      e.preventDefault();
      this.go();
    });
    $('token-cancel').addEventListener('click', () => this.tokenGiven(false));
    $('token-dialog').addEventListener('cancel', () => this.tokenGiven(false));
    $('token-form').addEventListener('submit', e => {
      e.preventDefault();
      this.tokenGiven(true);
    });
  }

  /** Opens the dialog of a verb on an election, or of a run of a poll. */
  open(verb, name) {
    this.verb = verb;
    this.name = name;
    this.finished = false;
    const e = this.target();
    if (!e) return;
    this.epoch = e.epoch; // what the user has seen
    const choice = $('action-choice');
    choice.hidden = verb !== 'handoff';
    if (verb === 'handoff') {
      const others = e.candidates.filter(c => c.id !== e.leader);
      others.sort((a, b) => b.canLead - a.canLead);
      $('action-to').replaceChildren(...others.map(c =>
        h('option', {value: c.id, disabled: !c.canLead}, c.canLead ? c.id : `${c.id}: ${c.why}`)));
      const first = others.find(c => c.canLead);
      if (first) $('action-to').value = first.id;
    }
    this.say('', '');
    this.show();
    if (!this.dialog.open) this.dialog.showModal();
  }

  target() {
    if (this.verb !== 'run') return state.elections.get(this.name);
    const e = state.status && state.elections.get(state.status.election);
    return e && {...e, poll: this.name};
  }

  show() {
    const e = this.target();
    const v = verbs[this.verb];
    const to = this.verb === 'handoff' ? $('action-to').value : '';
    const nobody = this.verb === 'handoff' && !to;
    text($('action-title'), v.title(e));
    text($('action-what'), nobody ? `No other member can lead ${e.name} now.` : v.what(e, to));
    text($('action-command'), v.command(e, to));
    const go = $('action-go');
    text(go, v.go);
    go.className = v.danger ? 'primary danger' : 'primary';
    go.disabled = nobody;
    go.hidden = false;
    text($('action-cancel'), 'Cancel');
  }

  say(kind, what) {
    const r = $('action-result');
    r.className = `result ${kind}`;
    text(r, what);
  }

  async copy() {
    try {
      await navigator.clipboard.writeText($('action-command').textContent);
      text($('action-copy'), 'Copied');
    } catch {
      getSelection().selectAllChildren($('action-command')); // no clipboard without HTTPS: at least select it
    }
    setTimeout(() => text($('action-copy'), 'Copy'), 2000);
  }

  async go() {
    const go = $('action-go');
    if (this.retry) { // the epoch has moved, and the user has read what is true now
      this.retry = false;
      this.open(this.verb, this.name);
      return;
    }
    go.disabled = true;
    this.say('', 'Asking…');
    const began = performance.now();
    try {
      const answer = await this.ask();
      const took = Math.round(performance.now() - began);
      this.say('good', this.outcome(answer, took));
      go.hidden = true;
      text($('action-cancel'), 'Close');
      $('action-cancel').focus();
      this.done();
    } catch (e) {
      this.failed(e);
    } finally {
      go.disabled = false;
    }
  }

  /** Sends the request. If the node wants a token, it asks for it once, and sends the request again. */
  async ask() {
    const send = () => this.verb === 'run' ? api.runPoll(this.name, this.epoch)
      : api.verb(this.name, this.verb, this.epoch, this.verb === 'handoff' ? $('action-to').value : '');
    for (;;) {
      try {
        return await send();
      } catch (e) {
        if (!(e instanceof api.Refused) || e.status !== 401) throw e;
        const wrong = api.hasToken() ? 'The node refused that token.' : '';
        if (!await this.askToken(wrong)) throw e;
      }
    }
  }

  outcome(a, took) {
    if (this.verb === 'run') return `${a.outcome} on ${a.worker || 'no worker'}${a.message ? `: ${a.message}` : ''}`;
    if (this.verb === 'pause' || this.verb === 'resume') {
      return `Done: ${this.name} is ${a.paused ? 'paused' : 'resumed'}.`;
    }
    return a.leader ? `Done in ${took} ms: ${a.leader} leads in epoch ${a.epoch}.`
      : `Done in ${took} ms: released. The next leader shows above as soon as it has claimed.`;
  }

  failed(e) {
    if (e.status === 409 && e.code === 'epoch_passed') {
      this.say('bad', `Nothing was changed: you saw epoch ${this.epoch}, and it is ${e.epoch} now (409).`);
      text($('action-go'), 'Look again');
      this.retry = true;
      this.done();
      return;
    }
    const what = e instanceof api.Refused ? `${e.message} (${e.status})`
      : `The node did not answer: ${e.message}. Whether it was done is not known; the page will show it.`;
    this.say('bad', what);
  }

  /** Asks for the token. It resolves to false if the user would rather not. */
  askToken(wrong = '') {
    text($('token-result'), wrong);
    $('token-input').value = '';
    $('token-dialog').showModal();
    return new Promise(resolve => { this.resolveToken = resolve; });
  }

  tokenGiven(given) {
    if (given) api.setToken($('token-input').value.trim());
    $('token-input').value = '';
    $('token-dialog').close();
    if (this.resolveToken) this.resolveToken(given);
    this.resolveToken = null;
    if (given) this.done('token');
  }
}
