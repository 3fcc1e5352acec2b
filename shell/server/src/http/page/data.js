// Keys and streams by hand.

import { at, el } from './dom.js';
import { clock } from './stories.js';

const MESSAGES_SHOWN = 200;

const keyPath = key => `/v1/kv/${encodeURIComponent(key)}`;

function say(id, words, grade = '') {
  const node = at(id);
  node.textContent = words;
  node.className = `answer ${grade}`;
}

async function ask(path, options) {
  const answer = await fetch(path, options);
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  throw new Error(body.error?.message ?? `the node answered ${answer.status}`);
}

async function tried(id, work) {
  say(id, '…');
  try {
    say(id, await work(), 'good');
  } catch (error) {
    say(id, error.message, 'bad');
  }
}

const place = answer => `at ${answer.headers.get('atoll-position')}`;

const wantedKey = () => {
  const key = at('key').value;
  if (!key) throw new Error('which key?');
  return key;
};

const get = () => tried('key-answer', async () => {
  const answer = await ask(keyPath(wantedKey()));
  const bytes = new Uint8Array(await answer.arrayBuffer());
  try {
    at('value').value = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    at('value').value = '';
    return `${bytes.length} bytes that are no text, ETag ${answer.headers.get('etag')}, ${place(answer)}`;
  }
  return `read, ETag ${answer.headers.get('etag')}, ${place(answer)}`;
});

const put = () => tried('key-answer', async () => {
  const answer = await ask(keyPath(wantedKey()), { method: 'PUT', body: at('value').value });
  return `written, ETag ${answer.headers.get('etag')}, ${place(answer)}`;
});

const remove = () => tried('key-answer', async () => {
  const answer = await ask(keyPath(wantedKey()), { method: 'DELETE' });
  at('value').value = '';
  return `deleted ${place(answer)}`;
});

// Percent-encoded bytes, as a person would rather see them.
function readable(encoded) {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}

async function scan(after) {
  const box = at('scan');
  if (after === undefined) box.replaceChildren(el('p', { class: 'empty' }, '…'));
  try {
    const from = after === undefined ? '' : `&after=${after}`;
    const answer = await ask(`/v1/kv?values=true&limit=100&prefix=${encodeURIComponent(at('prefix').value)}${from}`);
    const { keys, after: next } = await answer.json();
    if (after === undefined) box.replaceChildren();
    box.querySelector('.more')?.remove();
    for (const row of keys) {
      const open = event => {
        event.preventDefault();
        at('key').value = readable(row.key);
        get();
      };
      const value = row.value ?? 'no text';
      box.append(el('div', { class: 'item' },
        el('a', { href: '#data', class: 'mono', onclick: open }, readable(row.key)),
        el('span', { class: 'mono' }, value.length > 200 ? `${value.slice(0, 200)}…` : value)));
    }
    if (next !== null) {
      box.append(el('div', { class: 'item more' }, el('button', { class: 'small', type: 'button', onclick: () => scan(next) }, 'More')));
    }
    if (!box.children.length) box.replaceChildren(el('p', { class: 'empty' }, 'no such keys'));
  } catch (error) {
    box.replaceChildren(el('p', { class: 'error' }, error.message));
  }
}

const streamPath = () => {
  const name = at('stream').value;
  if (!name) throw new Error('which stream?');
  return `/v1/streams/${encodeURIComponent(name)}`;
};

const publish = () => tried('stream-answer', async () => {
  const answer = await ask(streamPath(), { method: 'POST', body: at('message').value });
  const { offset } = await answer.json();
  at('message').value = '';
  return `published as message ${offset}, ${place(answer)}`;
});

let tailing = null;

function stopTail() {
  tailing?.close();
  tailing = null;
  at('tail').textContent = 'Tail';
}

function tail() {
  if (tailing) {
    stopTail();
    say('stream-answer', 'no longer followed');
    return;
  }
  let path;
  try {
    path = streamPath();
  } catch (error) {
    say('stream-answer', error.message, 'bad');
    return;
  }
  const box = at('messages');
  box.replaceChildren();
  tailing = new EventSource(`${path}?from=0`);
  at('tail').textContent = 'Stop';
  say('stream-answer', 'following', 'good');
  tailing.onmessage = event => {
    const message = JSON.parse(event.data);
    const text = message.data ?? JSON.stringify(message.fields ?? message.data_base64);
    box.prepend(el('div', { class: 'item', title: clock(message.time) }, el('span', { class: 'quiet' }, String(message.offset)), el('span', { class: 'mono' }, text)));
    while (box.children.length > MESSAGES_SHOWN) box.lastChild.remove();
  };
  tailing.onerror = () => {
    if (tailing?.readyState !== EventSource.CLOSED) return;
    stopTail();
    say('stream-answer', 'the node ended it', 'bad');
  };
}

export function start() {
  const on = (id, kind, work) => at(id).addEventListener(kind, event => {
    event.preventDefault();
    work();
  });
  on('key-form', 'submit', get);
  on('key-put', 'click', put);
  on('key-delete', 'click', remove);
  on('scan-form', 'submit', () => scan());
  on('stream-form', 'submit', publish);
  on('tail', 'click', tail);
}
