// The stream of events. EventSource cannot send a token, so this reads the stream of a fetch, and comes back with
// Last-Event-ID as EventSource would.

import * as api from './api.js';

const silence = 40000; // the node sends a comment every 15 s

/** Follows the events of the node while the page is open. It calls on.events, on.open, on.lost and on.refused. */
export class Stream {
  constructor(on) {
    this.on = on;
    this.last = '';
    this.wait = 0;
    this.stopped = false;
  }

  start() {
    this.stopped = false;
    this.run();
  }

  /** Tries again at once, for instance after a token was entered. */
  again() {
    this.wait = 0;
    if (this.stopped) this.start();
    else if (this.wake) this.wake();
  }

  async run() {
    while (!this.stopped) {
      try {
        await this.follow();
      } catch (e) {
        if (this.stopped) return;
        this.on.lost(e.message);
      }
      await this.pause();
    }
  }

  /** Waits before the next attempt: at first not at all, then longer, up to 5 s. */
  pause() {
    const ms = this.wait;
    this.wait = Math.min(5000, Math.max(500, this.wait * 2));
    return new Promise(done => {
      const timer = setTimeout(done, ms);
      this.wake = () => {
        clearTimeout(timer);
        done();
      };
    });
  }

  async follow() {
    const abort = new AbortController();
    let timer = setTimeout(() => abort.abort(), silence);
    const response = await api.openEvents(this.last, abort.signal);
    if (!response.ok) {
      clearTimeout(timer);
      const refused = await api.refusal(response);
      if (refused.status === 401 || refused.status === 403) this.stopped = true;
      this.on.refused(refused);
      return;
    }
    this.on.open();
    this.wait = 500;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    try {
      for (;;) {
        const {done, value} = await reader.read();
        if (done) throw new Error('the node has ended the stream');
        clearTimeout(timer);
        timer = setTimeout(() => abort.abort(), silence);
        rest = this.take(rest + value);
      }
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
  }

  /** Takes the whole frames of a text and returns the rest. */
  take(text) {
    const batch = [];
    let from = 0;
    for (let end; (end = text.indexOf('\n\n', from)) >= 0; from = end + 2) {
      const e = this.frame(text.slice(from, end));
      if (e) batch.push(e);
    }
    if (batch.length) this.on.events(batch);
    return text.slice(from);
  }

  frame(lines) {
    let id = '';
    let data = '';
    for (const line of lines.split('\n')) {
      if (line.startsWith('id: ')) id = line.slice(4);
      else if (line.startsWith('data: ')) data += line.slice(6);
    }
    if (!data) return null;
    if (id) this.last = id;
    return api.event(id, data);
  }
}
