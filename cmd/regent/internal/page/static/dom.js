// Small helpers for elements. Text is always set as text, never as HTML.

export const $ = id => document.getElementById(id);

/** Creates an element. Attributes whose value is false, null or undefined are left out; on… are listeners. */
export function h(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) {
    if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else attribute(e, k, v);
  }
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
}

/** Sets an attribute if it has another value. */
export function attribute(e, name, value) {
  if (value === false || value === null || value === undefined) {
    if (e.hasAttribute(name)) e.removeAttribute(name);
    return;
  }
  const text = value === true ? '' : String(value);
  if (e.getAttribute(name) !== text) e.setAttribute(name, text);
}

/** Sets the text of an element if it has another one, so that nothing is laid out again without need. */
export function text(e, value) {
  const t = String(value);
  if (e.textContent !== t) e.textContent = t;
}

/** Sets the class of an element if it has another one. */
export function cls(e, value) { if (e.className !== value) e.className = value; }

/** Makes the children of parent those of items, in their order. Children are kept by key and updated in place. */
export function keyed(parent, items, key, create, update) {
  const kept = parent.keyedChildren || (parent.keyedChildren = new Map());
  const keys = items.map(key);
  const wanted = new Set(keys);
  for (const [k, child] of kept) { // first, so that those that stay need not move
    if (wanted.has(k)) continue;
    child.remove();
    kept.delete(k);
  }
  let at = parent.firstChild;
  items.forEach((item, i) => {
    let child = kept.get(keys[i]);
    if (!child) {
      child = create(item);
      kept.set(keys[i], child);
    }
    if (child === at) at = at.nextSibling;
    else parent.insertBefore(child, at);
    update(child, item);
  });
}

/** Whether the user asks for less motion. */
export const still = matchMedia('(prefers-reduced-motion: reduce)');

/** Returns a function that calls f once in the next frame, however often it is called before. */
export function framed(f) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      f();
    });
  };
}

/** A table whose rows become cards on narrow screens. Roles are named, since other display values would drop them. */
export function table(parent, label, columns) {
  const head = h('div', {role: 'row', class: 'row head'},
    ...columns.map(c => h('div', {role: 'columnheader', class: `cell ${c.class || ''}`}, c.title)));
  const body = h('div', {role: 'rowgroup', class: 'rows'});
  const box = h('div', {role: 'table', class: `table ${label.toLowerCase()}-table`, 'aria-label': label},
    h('div', {role: 'rowgroup', class: 'heads'}, head), body);
  const empty = h('p', {class: 'empty'});
  parent.replaceChildren(box, empty);

  const row = () => {
    const cells = columns.map(c => h('div', {role: 'cell', class: `cell ${c.class || ''}`, 'data-title': c.title}));
    const e = h('div', {role: 'row', class: 'row'}, ...cells);
    e.cells = cells;
    return e;
  };

  return {
    body,
    show(items, key, create, update, nothing) {
      keyed(body, items, key, item => {
        const r = row();
        create(r, item);
        return r;
      }, update);
      box.hidden = items.length === 0;
      empty.hidden = items.length > 0;
      if (items.length === 0) text(empty, nothing);
    },
  };
}
