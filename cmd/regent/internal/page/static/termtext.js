// A part of the timeline in words.

import {clock, moment, reason, span} from './format.js';
import {now} from './state.js';

const minute = 60e3;

/** The text of a tick of the axis. */
export function tick(t, step) {
  const d = new Date(t);
  if (step >= 86400e3) return d.toLocaleDateString(undefined, {month: 'short', day: 'numeric'});
  const midnight = d.getHours() === 0 && d.getMinutes() === 0 && d.getSeconds() === 0;
  if (midnight) return d.toLocaleDateString(undefined, {month: 'short', day: 'numeric'});
  return step < minute ? clock(t) : clock(t).slice(0, 5);
}

/** A part in a few lines, for the tip. */
export function summary(p) {
  const t = now();
  const until = p.ended === undefined ? 'now' : moment(p.ended, t, true);
  const length = span((p.ended || t) - p.began);
  if (p.kind === 'gap') {
    return [`Nobody led for ${length}`, `${moment(p.began, t, true)} – ${until}`,
      `${p.holder}, epoch ${p.epoch}: ${reason(p.reason)}`];
  }
  return [`${p.holder} · epoch ${p.epoch} · ${length}`, `${moment(p.began, t, true)} – ${until}`,
    p.ended === undefined ? 'leads now' : `ended: ${reason(p.reason)}`];
}

/** A part as a sentence. */
export function describe(p) {
  const t = now();
  const from = moment(p.began, t, true);
  const length = span((p.ended || t) - p.began);
  if (p.kind === 'gap') {
    const then = p.ended === undefined ? 'nobody leads yet' : `until ${moment(p.ended, t, true)}, epoch ${p.next}`;
    return `Nobody led for ${length}, from ${from}, ${then}. ` +
      `Epoch ${p.epoch} of ${p.holder} ended: ${reason(p.reason)}.`;
  }
  if (p.ended === undefined) return `Epoch ${p.epoch}: ${p.holder} leads since ${from}, ${length}.`;
  return `Epoch ${p.epoch}: ${p.holder} led for ${length}, from ${from} to ${moment(p.ended, t, true)}. ` +
    `It ended: ${reason(p.reason)}.`;
}
