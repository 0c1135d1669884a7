// Times, durations and reasons as text.

const units = [[86400e3, 'd'], [3600e3, 'h'], [60e3, 'min'], [1e3, 's']];

/** A duration in milliseconds with two units at most: 2 h 5 min, 12 s, 340 ms. */
export function span(ms) {
  if (ms === undefined || !isFinite(ms)) return '—';
  if (ms < 0) ms = 0;
  if (ms < 0.005) return '0 ms';
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 10) return `${+ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10e3) return ms % 1000 === 0 ? `${ms / 1000} s` : `${(ms / 1e3).toFixed(1)} s`;
  const i = units.findIndex(([size]) => ms >= size);
  const [size, unit] = units[i];
  const whole = Math.floor(ms / size);
  if (i === units.length - 1) return `${whole} s`;
  const [smaller, name] = units[i + 1];
  const rest = Math.floor((ms - whole * size) / smaller);
  return rest > 0 && whole < 100 ? `${whole} ${unit} ${rest} ${name}` : `${whole} ${unit}`;
}

/** A duration in whole seconds, for what counts on while somebody watches. */
export function seconds(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  return s < 10 ? `${s} s` : span(s * 1000);
}

const pad = (n, digits = 2) => String(n).padStart(digits, '0');

/** A time of day: 18:04:07, with milliseconds if asked. */
export function clock(t, millis = false) {
  const d = new Date(t);
  const base = `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
  return millis ? `${base}.${pad(d.getMilliseconds(), 3)}` : base;
}

/** A time with its date, unless that is today. */
export function moment(t, now, millis = false) {
  const d = new Date(t);
  if (d.toDateString() === new Date(now).toDateString()) return clock(t, millis);
  return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${clock(t, millis)}`;
}

const reasons = {
  first: 'nobody has led before',
  forgotten: 'the store has no record of the last term',
  died: 'its process died',
  killed: 'its process was frozen, and its reaper killed it',
  expired: 'its lease expired',
  rejoined: 'it joined again',
  shutdown: 'it was shut down',
  handoff: 'it handed over',
  'stepped down': 'it stepped down',
  paused: 'it stepped down while the election was paused',
  unhealthy: 'it was unhealthy',
  fenced: 'a fence had seen a higher epoch',
  returned: 'its work ended',
  partition: 'it could not renew its lease in time',
  'lost lease': 'it found its lease taken',
  panic: 'its loop panicked',
  abandoned: 'it had stopped campaigning',
};

/** Why a term ended, in words. A reason that the page does not know is shown as it is. */
export function reason(r) { return reasons[r] || r || 'not known'; }

/** A count with its noun: 1 member, 2 members. */
export function plural(n, noun) { return `${n.toLocaleString('en')} ${noun}${n === 1 ? '' : 's'}`; }
