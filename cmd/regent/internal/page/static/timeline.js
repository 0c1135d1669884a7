// The timeline of terms: a lane for each election, a segment for each term in the colour of its member, and in red the
// time in which nobody led.

import {$, attribute, cls, framed, h, keyed, still, text} from './dom.js';
import {span} from './format.js';
import {colourOf, lane, now, state} from './state.js';
import {describe, summary, tick} from './termtext.js';

const minute = 60e3;
const least = 2e3; // the shortest and the longest time span
const most = 5 * 365 * 86400e3;
const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800,
  604800, 1209600, 2592000, 7776000, 31536000].map(s => s * 1000);

export class Timeline {
  constructor(on) {
    this.on = on;
    this.list = $('lane-list');
    this.scroll = $('lane-scroll');
    this.box = $('lanes');
    this.all = true; // the span follows the oldest term
    this.span = 10 * minute;
    this.end = 0; // the right edge; 0 for now
    this.focus = null; // {election, part} that the keyboard is on
    this.hover = null;
    this.names = [];
    this.top = 0;
    this.draw = framed(() => this.render());
    this.listen();
  }

  listen() {
    for (const b of document.querySelectorAll('#timeline [data-span]')) {
      b.addEventListener('click', () => this.show(b.dataset.span));
    }
    $('zoom-in').addEventListener('click', () => this.zoom(0.5));
    $('zoom-out').addEventListener('click', () => this.zoom(2));
    $('to-now').addEventListener('click', () => this.toNow());
    this.scroll.addEventListener('scroll', () => this.scrolled(), {passive: true});
    this.scroll.addEventListener('wheel', e => this.wheel(e), {passive: false});
    this.scroll.addEventListener('pointerdown', e => this.drag(e));
    this.list.addEventListener('keydown', e => this.key(e));
    this.list.addEventListener('pointerover', e => this.point(e));
    this.list.addEventListener('pointerleave', () => this.leave());
    this.list.addEventListener('focusin', e => this.focused(e));
    this.list.addEventListener('focusout', () => this.leave());
    new ResizeObserver(() => this.measure()).observe(this.box);
    this.measure();
  }

  // Sizes are read here alone: to read them while the document changes would make the browser lay it out again.

  measure() {
    this.width = $('axis').clientWidth || 600; // as wide as each lane
    this.narrow = matchMedia('(max-width: 640px)').matches;
    this.most = Math.min(440, innerHeight * 0.6);
    this.draw();
  }

  scrolled() {
    this.top = this.scroll.scrollTop;
    this.draw();
  }

  /** Shows a span of seconds up to now, or all terms. */
  show(seconds) {
    this.all = seconds === 'all';
    if (!this.all) this.span = seconds * 1000;
    this.toNow();
  }

  toNow() {
    this.end = 0;
    this.draw();
  }

  /** Zooms by a factor, around a place from 0 to 1; around the right edge if the view follows the time. */
  zoom(factor, at = this.end ? 0.5 : 1) {
    const {from, to} = this.range();
    const pivot = from + (to - from) * at;
    this.span = Math.min(most, Math.max(least, (to - from) * factor));
    this.all = false;
    if (this.end) this.end = pivot + this.span * (1 - at);
    this.draw();
  }

  pan(ms) {
    const {to} = this.range();
    this.all = false;
    this.end = to + ms;
    if (this.end >= now()) this.end = 0;
    this.draw();
  }

  wheel(e) {
    const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey;
    if (!e.ctrlKey && !e.metaKey && !sideways) return; // the page scrolls
    e.preventDefault();
    const box = this.trackBox();
    if (sideways) {
      this.pan((e.deltaX || e.deltaY) * (this.range().to - this.range().from) / box.width);
      return;
    }
    const at = Math.min(1, Math.max(0, (e.clientX - box.left) / box.width));
    if (!this.end && at < 0.97) this.end = this.range().to;
    this.zoom(Math.exp(e.deltaY * 0.004), this.end ? at : 1);
  }

  drag(e) {
    if (e.button !== 0 || e.pointerType === 'touch') return;
    const {from, to} = this.range();
    const perPixel = (to - from) / this.trackBox().width;
    const begin = e.clientX;
    let moved = false;
    const move = m => {
      if (!moved && Math.abs(m.clientX - begin) < 4) return;
      moved = true;
      this.span = to - from;
      this.all = false;
      this.end = to - (m.clientX - begin) * perPixel;
      if (this.end >= now()) this.end = 0;
      this.draw();
    };
    const up = () => {
      removeEventListener('pointermove', move);
      removeEventListener('pointerup', up);
    };
    addEventListener('pointermove', move);
    addEventListener('pointerup', up);
  }

  range() {
    const to = this.end || now();
    if (this.all) this.span = Math.max(minute, (to - this.oldest()) * 1.02);
    const pad = this.end ? 0 : this.span * 0.01; // the edge of now is not the edge of the lane
    return {from: to - this.span + pad, to: to + pad};
  }

  oldest() {
    let t = now() - minute;
    for (const e of state.elections.values()) {
      const terms = state.terms.get(e.name);
      if (terms && terms.length) t = Math.min(t, terms[0].began);
      else if (e.since) t = Math.min(t, e.since);
    }
    return t;
  }

  trackBox() {
    const track = this.list.querySelector('.track');
    return (track || this.list).getBoundingClientRect();
  }

  /** How often the picture changes visibly, in milliseconds. */
  pace() {
    return Math.min(5000, Math.max(still.matches ? 1000 : 100, this.span / this.width));
  }

  render() {
    const own = state.status ? state.status.election : '';
    this.names = [...state.elections.keys()].sort((a, b) => (b === own) - (a === own) || (a < b ? -1 : 1));
    const height = this.narrow ? 62 : this.names.length <= 6 ? 64 : 44;
    cls(this.list, height === 64 ? 'lane-list tall' : 'lane-list');
    this.laneHeight = height;
    const whole = this.names.length * height;
    this.shown = Math.min(whole, Math.max(height, this.most));
    if (this.whole !== whole) {
      this.whole = whole;
      this.list.style.height = `${whole}px`;
      this.scroll.style.height = `${this.shown}px`;
    }
    this.view = this.range();
    const first = Math.max(0, Math.floor(this.top / height) - 1);
    const shown = Math.ceil(this.shown / height) + 2;
    const items = this.names.slice(first, first + shown).map((name, i) => ({name, at: first + i}));
    keyed(this.list, items, i => i.name, () => this.makeLane(), (e, i) => this.drawLane(e, i));
    this.ticks();
    this.buttons();
    this.rove();
    if (this.hover || this.focus) this.inspect();
  }

  makeLane() {
    const label = h('div', {class: 'lane-name'}, h('strong'), h('span'));
    const e = h('div', {class: 'lane', role: 'group'}, label,
      h('div', {class: 'track'}, h('div', {class: 'parts'}), h('div', {class: 'edge', 'aria-hidden': 'true'})));
    e.parts = e.querySelector('.parts');
    e.edge = e.querySelector('.edge');
    return e;
  }

  drawLane(e, {name, at}) {
    const el = state.elections.get(name);
    e.election = name;
    e.style.transform = `translateY(${at * this.laneHeight}px)`;
    attribute(e, 'aria-label', `Election ${name}`);
    attribute(e, 'data-election', name);
    attribute(e, 'data-state', el.paused ? 'paused' : el.state);
    text(e.firstChild.firstChild, name);
    text(e.firstChild.lastChild, el.state === 'led' ? `${el.leader} · epoch ${el.epoch}`
      : el.state === 'finished' ? 'finished' : 'nobody leads');
    const {from, to} = this.view;
    const width = this.width;
    const scale = width / (to - from);
    const parts = lane(el).filter(p => (p.ended === undefined || p.ended >= from) && p.began <= to);
    let free = -Infinity; // where the label of the gap before ends
    keyed(e.parts, parts, p => `${p.kind}${p.epoch}`, p => this.makePart(name, p), (b, p) => {
      free = this.drawPart(b, p, (p.began - from) * scale, ((p.ended || now()) - from) * scale, width, free);
    });
    const edge = Math.round((now() - from) * scale);
    if (e.edgeAt !== edge) {
      e.edgeAt = edge;
      e.edge.style.transform = `translateX(${Math.min(edge, width + 5)}px)`;
    }
  }

  makePart(election, p) {
    const b = h('button', {type: 'button', class: `part ${p.kind}`, tabindex: '-1', 'data-epoch': p.epoch},
      h('span', {class: 'part-label'}));
    b.election = election;
    return b;
  }

  /** Places a part. left and right are pixels. It returns where the labels of gaps end. */
  drawPart(b, p, left, right, width, free) {
    b.piece = p;
    const open = p.ended === undefined;
    const gap = p.kind === 'gap';
    const l = Math.max(-2, left);
    let w = Math.min(width + 2, right) - l;
    if (gap && w < 4) w = 4;
    else if (!gap) w = Math.max(1.5, w - (right - left > 6 ? 1 : 0)); // a hair between terms
    const idle = p.reason === 'returned' && !open; // there was no work left
    const kind = gap ? `gap${idle ? ' idle' : ''}${w > 12 ? ' wide' : ''}` : `term ${colourOf(p.holder)}`;
    cls(b, `part ${kind}${open ? ' open' : ''}`);
    const at = gap && w === 4 ? l - 1 : l;
    if (b.at !== at || b.w !== w) {
      b.at = at;
      b.w = w;
      b.style.transform = `translateX(${at.toFixed(1)}px)`;
      b.style.width = `${w.toFixed(1)}px`;
    }
    const label = this.labelOf(p, w, at, free);
    attribute(b.firstChild, 'data-text', label.text);
    if (b.labelled !== `${open}${p.ended}${p.reason}`) {
      b.labelled = `${open}${p.ended}${p.reason}`;
      attribute(b, 'aria-label', describe(p));
    }
    return label.free;
  }

  labelOf(p, w, at, free) {
    if (p.kind === 'gap') {
      const t = span((p.ended || now()) - p.began);
      const need = t.length * 6.4;
      const middle = at + w / 2;
      return middle - need / 2 > free ? {text: t, free: middle + need / 2 + 4} : {text: '', free};
    }
    const full = `${p.holder}  ·  ${p.epoch}`;
    if (w > full.length * 7.6 + 18) return {text: full, free};
    return {text: w > p.holder.length * 7.8 + 18 ? p.holder : w > 24 ? String(p.epoch) : '', free};
  }

  ticks() {
    const axis = $('axis');
    const width = this.width;
    const {from, to} = this.view;
    const scale = width / (to - from);
    const step = steps.find(s => s * scale >= (width < 500 ? 78 : 96)) || steps[steps.length - 1];
    const zone = new Date(to).getTimezoneOffset() * minute;
    const marks = [];
    for (let t = Math.ceil((from - zone) / step) * step + zone; t < to; t += step) marks.push(t);
    keyed(axis, marks, t => t, () => h('span', {class: 'tick'}, h('span')), (e, t) => {
      e.style.transform = `translateX(${((t - from) * scale).toFixed(1)}px)`;
      text(e.firstChild, (to - t) * scale > 48 ? tick(t, step) : ''); // none that is cut off
    });
  }

  buttons() {
    for (const b of document.querySelectorAll('#timeline [data-span]')) {
      const on = !this.end && (b.dataset.span === 'all' ? this.all : !this.all && this.span === b.dataset.span * 1000);
      attribute(b, 'aria-pressed', String(on));
    }
    $('to-now').disabled = !this.end;
  }

  // The keyboard.

  /** Makes one part reachable with Tab: the one that the keyboard was on, or the newest of the first lane. */
  rove() {
    let target = this.focus && this.find(this.focus);
    if (!target) {
      const firstLane = this.list.querySelector('.lane');
      target = firstLane && firstLane.parts.lastElementChild;
    }
    if (this.reachable === target) return;
    if (this.reachable) attribute(this.reachable, 'tabindex', '-1');
    if (target) attribute(target, 'tabindex', '0');
    this.reachable = target;
  }

  find({election, kind, epoch}) {
    for (const l of this.list.children) {
      if (l.election === election) return l.parts.querySelector(`.${kind}[data-epoch="${epoch}"]`);
    }
    return null;
  }

  key(e) {
    const b = e.target.closest('.part');
    if (!b) return;
    const {from, to} = this.range();
    switch (e.key) {
      case '+': case '=': this.zoom(0.5); break;
      case '-': this.zoom(2); break;
      case '0': this.show('all'); break;
      case 'PageUp': this.pan(from - to); break;
      case 'PageDown': this.pan(to - from); break;
      case 'ArrowLeft': this.go(b, 0, -1); break;
      case 'ArrowRight': this.go(b, 0, 1); break;
      case 'ArrowUp': this.go(b, -1, 0); break;
      case 'ArrowDown': this.go(b, 1, 0); break;
      case 'Home': this.go(b, 0, -Infinity); break;
      case 'End': this.go(b, 0, Infinity); break;
      default: return;
    }
    e.preventDefault();
  }

  /** Moves the focus by lanes and by parts. The view follows. */
  go(b, lanes, parts) {
    const at = Math.min(this.names.length - 1, Math.max(0, this.names.indexOf(b.election) + lanes));
    const name = this.names[at];
    const all = lane(state.elections.get(name));
    if (all.length === 0) return;
    const middle = ((b.piece.ended || now()) + b.piece.began) / 2;
    let i = name === b.election ? all.findIndex(p => p.kind === b.piece.kind && p.epoch === b.piece.epoch)
      : all.findIndex(p => (p.ended || Infinity) >= middle);
    i = Math.min(all.length - 1, Math.max(0, (i < 0 ? all.length - 1 : i) + parts));
    const p = all[i];
    this.focus = {election: name, kind: p.kind, epoch: p.epoch};
    this.reveal(at, p);
    this.render();
    const target = this.find(this.focus);
    if (target) target.focus({preventScroll: true});
  }

  reveal(laneAt, p) {
    const top = laneAt * this.laneHeight;
    const bottom = top + this.laneHeight - this.shown;
    this.top = Math.max(bottom, Math.min(top, this.top));
    this.scroll.scrollTop = this.top;
    const {from, to} = this.range();
    const until = p.ended || now();
    if (until >= from && p.began <= to) return;
    this.all = false;
    this.end = Math.min(now(), (p.began + until) / 2 + this.span / 2);
    if (this.end >= now()) this.end = 0;
  }

  // What a part says.

  focused(e) {
    const b = e.target.closest('.part');
    if (!b) return;
    this.focus = {election: b.election, kind: b.piece.kind, epoch: b.piece.epoch};
    this.hover = b;
    this.rove();
    this.inspect();
  }

  point(e) {
    const b = e.target.closest('.part');
    if (!b) {
      this.leave();
      return;
    }
    this.hover = b;
    this.inspect();
    this.on.tip(b, summary(b.piece), b.getBoundingClientRect(), e.clientX);
  }

  leave() {
    this.hover = null;
    this.on.tip(null);
  }

  inspect() {
    const b = this.hover || (this.focus && this.find(this.focus));
    if (b && b.piece) text($('inspector'), `${b.election} — ${describe(b.piece)}`);
  }
}
