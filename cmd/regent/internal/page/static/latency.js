// The chart of heartbeat latency: p50 and p99 of this node over time, on a logarithmic scale, and the line at which
// the lease would be lost.

import {$, framed, text} from './dom.js';
import {clock, span} from './format.js';
import {now, state} from './state.js';

const kept = 10 * 60e3;

export class Latency {
  constructor() {
    this.canvas = $('latency-chart');
    this.samples = []; // {at, p50, p99}
    this.draw = framed(() => this.render());
    new ResizeObserver(() => this.measure()).observe(this.canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.measure());
    this.measure();
  }

  // Sizes and colours are read here alone: to read them while the document changes would make the browser lay it out
  // again.

  measure() {
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    const style = getComputedStyle(this.canvas);
    this.font = `11px ${style.fontFamily}`;
    this.colours = new Map(['--line', '--muted', '--danger', '--danger-soft', '--chart-1', '--chart-2']
      .map(name => [name, style.getPropertyValue(name).trim()]));
    this.draw();
  }

  sample() {
    const f = state.figures;
    if (!f || !(f.p50 > 0)) return;
    this.samples.push({at: now(), p50: f.p50, p99: f.p99});
    while (this.samples[0].at < now() - kept) this.samples.shift();
  }

  render() {
    const f = state.figures;
    if (!f || !state.status) return;
    this.words(f);
    const ratio = devicePixelRatio || 1;
    const {width, height} = this;
    if (!width) return;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    const c = this.canvas.getContext('2d');
    c.scale(ratio, ratio);
    const colour = name => this.colours.get(name);
    c.font = this.font;
    const lost = f.lostAt || 1000;
    const low = Math.min(0.1, ...this.samples.map(s => s.p50)) * 0.7;
    const high = lost * 2.5;
    const area = {left: 52, right: width - 8, top: 8, bottom: height - 20};
    const y = v => area.bottom - (area.bottom - area.top) * Math.log(v / low) / Math.log(high / low);
    const to = now();
    const from = Math.min(to - 60e3, this.samples.length ? this.samples[0].at : to);
    const x = t => area.left + (area.right - area.left) * (t - from) / (to - from);
    this.grid(c, area, y, low, high, colour);
    this.limit(c, area, y(lost), lost, colour);
    this.line(c, x, y, 'p99', colour('--chart-2'));
    this.line(c, x, y, 'p50', colour('--chart-1'));
    c.fillStyle = colour('--muted');
    c.textBaseline = 'alphabetic';
    c.textAlign = 'left';
    c.fillText(clock(from), area.left, height - 4);
    c.textAlign = 'right';
    c.fillText('now', area.right, height - 4);
  }

  words(f) {
    text($('latency-hint'), `of ${state.status.node}, its last 100 heartbeats`);
    const figures = f.p50 > 0 ? `p50 ${span(f.p50)}, p99 ${span(f.p99)}` : 'fewer than 10 heartbeats so far';
    const room = f.p99 > 0 && f.lostAt ? `: ${Math.floor(f.lostAt / f.p99).toLocaleString('en')} times the p99` : '';
    text($('latency-text'), `${figures}. A heartbeat that takes ${span(f.lostAt)} loses the lease${room}. ` +
      `${f.failures.toLocaleString('en')} failed of ${f.heartbeats.toLocaleString('en')}.`);
  }

  grid(c, area, y, low, high, colour) {
    c.strokeStyle = colour('--line');
    c.fillStyle = colour('--muted');
    c.lineWidth = 1;
    c.textAlign = 'right';
    c.textBaseline = 'middle';
    for (let v = 10 ** Math.ceil(Math.log10(low)); v < high; v *= 10) {
      const at = Math.round(y(v)) + 0.5;
      c.beginPath();
      c.moveTo(area.left, at);
      c.lineTo(area.right, at);
      c.stroke();
      c.fillText(v >= 1000 ? `${v / 1000} s` : `${+v.toPrecision(1)} ms`, area.left - 6, at);
    }
  }

  limit(c, area, at, lost, colour) {
    c.fillStyle = colour('--danger-soft');
    c.fillRect(area.left, area.top, area.right - area.left, at - area.top);
    c.strokeStyle = colour('--danger');
    c.setLineDash([5, 4]);
    c.beginPath();
    c.moveTo(area.left, at);
    c.lineTo(area.right, at);
    c.stroke();
    c.setLineDash([]);
    c.fillStyle = colour('--danger');
    c.textAlign = 'left';
    c.textBaseline = 'top';
    c.fillText(`the lease is lost at ${span(lost)}`, area.left + 6, at + 4);
  }

  line(c, x, y, key, colour) {
    if (!this.samples.length) return;
    c.strokeStyle = colour;
    c.lineWidth = 2;
    c.lineJoin = 'round';
    c.beginPath();
    for (const s of this.samples) c.lineTo(x(s.at), y(s[key]));
    const last = this.samples[this.samples.length - 1];
    c.lineTo(x(now()), y(last[key]));
    c.stroke();
    c.fillStyle = colour;
    c.textAlign = 'right';
    const below = key === 'p50';
    c.textBaseline = below ? 'top' : 'bottom';
    c.fillText(key, x(now()) - 4, y(last[key]) + (below ? 4 : -4));
  }
}
