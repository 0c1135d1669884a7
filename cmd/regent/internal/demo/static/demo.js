// The buttons of the demo. The demo itself serves this file; the page of a node does not have it.

const token = document.querySelector('meta[name=regent-demo]').content;
const bar = document.getElementById('demo');
const list = document.getElementById('demo-lines');
const result = document.getElementById('demo-result');
const buttons = [...bar.querySelectorAll('button')];
const shown = 5;

/** Shows what went wrong; nothing if the text is empty. */
function say(text) {
  result.textContent = text;
  result.hidden = !text;
}

/** Lets no second fault be played while one is. */
function play(fault) {
  bar.dataset.playing = fault;
  for (const b of buttons) {
    b.disabled = fault !== '';
    b.setAttribute('aria-pressed', String(b.dataset.fault === fault));
  }
}

async function press(button) {
  say('');
  button.setAttribute('aria-busy', 'true');
  try {
    const response = await fetch(`/demo/faults/${button.dataset.fault}`,
      {method: 'POST', headers: {'Regent-Demo': token}});
    if (!response.ok) say((await response.json()).error);
  } catch {
    say('The demo has ended.');
  }
  button.removeAttribute('aria-busy');
}

/** Adds a line: the seconds since the demo began, and what happened. */
function add(line) {
  const item = document.createElement('p');
  const [, at, text] = /^\s*([\d.]+) {2}(.*)$/.exec(line) || [null, '', line];
  const time = document.createElement('span');
  time.textContent = at;
  item.append(time, text);
  if (/ later/.test(text)) item.className = 'measured';
  list.append(item);
  while (list.children.length > shown) list.firstElementChild.remove();
}

for (const b of buttons) b.addEventListener('click', () => press(b));

const lines = new EventSource('/demo/lines');
lines.addEventListener('message', e => {
  const news = JSON.parse(e.data);
  for (const line of news.lines || []) if (line) add(line);
  play(news.playing);
  if (!news.playing) say('');
});
lines.addEventListener('error', () => {
  play('gone');
  say('The demo does not answer: it has ended, or this page lost its connection.');
});
