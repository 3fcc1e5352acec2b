// The source of something that is over: a simulation or a recording. A timeline to scrub, step and play; the same views
// show how things were at its time.

import { at, el } from './dom.js';
import { changed, model, setBuckets, setStatus } from './model.js';

const SPEEDS = [.1, .25, .5, 1, 2, 5, 10];
// Messages are asked for in pieces of so long, in microseconds.
const PIECE = 500_000;
const PIECES_KEPT = 40;
const SHOWN = 60;

let line;
let now = 0;
let playing = null;
let speed = 1;
let frame = null;
const pieces = new Map();

// The last of a list, in the order of their times, that is not after `time`; -1: none is.
function lastAt(list, time, key = 'at') {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle][key] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

async function piece(number) {
  if (pieces.has(number)) return;
  pieces.set(number, []);
  while (pieces.size > PIECES_KEPT) pieces.delete(pieces.keys().next().value);
  const from = number * PIECE;
  const answer = await fetch(`/v1/timeline/messages?from=${from}&until=${from + PIECE}`);
  if (!answer.ok) return;
  pieces.set(number, (await answer.json()).messages);
  show(true);
}

// On their way at this moment; a lost one is seen to set out, and is gone.
function inFlight() {
  const found = [];
  for (const number of [Math.floor(now / PIECE) - 1, Math.floor(now / PIECE)]) {
    if (number < 0) continue;
    piece(number);
    for (const message of pieces.get(number) ?? []) {
      const arrives = message.arrives ?? message.sent + 30_000;
      if (message.sent <= now && now <= arrives) {
        const way = Math.max(1, arrives - message.sent);
        const part = (now - message.sent) / way * (message.arrives === null ? .5 : 1);
        found.push({ from: message.from, to: message.to, part, lost: message.arrives === null, text: message.text });
      }
    }
  }
  return found.slice(0, 200);
}

const seconds = micros => `${((micros - line.from) / 1e6).toFixed(3)} s`;

function drawMoment(current) {
  const item = (term, value) => el('dl', {}, el('dt', {}, term), el('dd', {}, String(value)));
  const processes = line.processes[current.processes] ?? {};
  const count = state => Object.values(processes).filter(found => found === state).length;
  const first = Math.max(0, lastAt(line.notes, now) - SHOWN + 1);
  const notes = line.notes.slice(first, lastAt(line.notes, now) + 1).reverse();
  const lines = notes.map(note => el('div', { class: note.kind }, `${seconds(note.at)}  ${note.text}`));
  const down = Object.entries(processes).filter(([, state]) => state !== 'running').map(([name, state]) => `${name} ${state}`);
  at('moment').replaceChildren(
    item('Decided', model.status?.decided ?? 0),
    item('Leader', model.status?.government.leader ?? 'none known'),
    Object.keys(processes).length ? item('Processes', down.length ? down.join(', ') : `all ${count('running')} run`) : '',
    item('Messages on their way', model.messages.length),
    el('div', { class: 'log' }, lines.length ? lines : el('p', { class: 'empty' }, 'nothing yet')),
  );
}

// A process that is down is not there, whatever the others believe.
function seen(status, processes) {
  const nodes = status.nodes.map(node => {
    const process = processes[node.name];
    return process && process !== 'running' && node.state === 'present' ? { ...node, state: process } : node;
  });
  return { ...status, nodes };
}

function show(only) {
  const place = Math.max(0, lastAt(line.frames, now));
  const current = line.frames[place];
  if (current && frame !== current) {
    frame = current;
    setStatus(seen(line.statuses[current.status], line.processes[current.processes] ?? {}));
    setBuckets({ all: true, rows: line.tables[current.table] });
  }
  const until = lastAt(line.events, now, 'time') + 1;
  if (model.events.size !== until) {
    model.events = new Map(line.events.slice(0, until).map(event => [event.id, event]));
    changed('events');
  }
  model.messages = inFlight();
  changed('messages');
  if (current) drawMoment(current);
  at('clock').textContent = seconds(now);
  if (!only) at('scrub').value = String(now);
  const mark = line.marks[lastAt(line.marks, now)];
  at('caption').textContent = mark ? `${seconds(mark.at)}: ${mark.text}` : line.title;
}

function go(time) {
  now = Math.max(line.from, Math.min(line.until, Math.round(time)));
  show();
}

function stop() {
  if (playing !== null) cancelAnimationFrame(playing);
  playing = null;
  at('play').textContent = 'Play';
}

function play_() {
  let before = performance.now();
  const tick = time => {
    go(now + (time - before) * 1000 * speed);
    before = time;
    if (now >= line.until) stop();
    else playing = requestAnimationFrame(tick);
  };
  if (now >= line.until) go(line.from);
  at('play').textContent = 'Pause';
  playing = requestAnimationFrame(tick);
}

const toggle = () => playing === null ? play_() : stop();

// To the next change of anything, or the one before.
function step(direction) {
  stop();
  const times = line.times;
  const target = direction > 0 ? times.find(time => time > now) : times.findLast(time => time < now);
  if (target !== undefined) go(target);
}

// To the next fault or violation.
function jump(direction) {
  stop();
  const target = direction > 0 ? line.marks.find(mark => mark.at > now) : line.marks.findLast(mark => mark.at < now);
  if (target) go(target.at);
}

function controls() {
  const button = (words, work, title, id) => el('button', { type: 'button', class: 'small', title, id, onclick: work }, words);
  const speeds = el('select', { 'aria-label': 'Speed', id: 'speed' }, SPEEDS.map(value => el('option', { value, selected: value === 1 }, `× ${value}`)));
  speeds.addEventListener('change', () => { speed = Number(speeds.value); });
  const scrub = el('input', { type: 'range', id: 'scrub', min: line.from, max: line.until, step: 1000, 'aria-label': 'Time' });
  scrub.addEventListener('input', () => {
    stop();
    now = Number(scrub.value);
    show(true);
  });
  const marks = line.marks.slice(0, 600).map(mark => {
    const node = el('i', { class: mark.kind, title: `${seconds(mark.at)}: ${mark.text}` });
    node.style.left = `${100 * (mark.at - line.from) / Math.max(1, line.until - line.from)}%`;
    return node;
  });
  at('timeline').replaceChildren(
    el('div', { class: 'controls' },
      button('‹ fault', () => jump(-1), 'To the fault before (shift + ←)'),
      button('‹', () => step(-1), 'A step back (←)'),
      button('Play', toggle, 'Play or pause (space)', 'play'),
      button('›', () => step(1), 'A step on (→)', 'step'),
      button('fault ›', () => jump(1), 'To the next fault or violation (shift + →)', 'next-fault'),
      speeds,
      el('span', { class: 'clock', id: 'clock' }),
      el('span', { class: 'caption', id: 'caption' })),
    el('div', { class: 'track' }, scrub, el('div', { class: 'marks' }, marks)),
  );
  at('timeline').hidden = false;
  addEventListener('keydown', event => {
    if (/INPUT|SELECT|TEXTAREA/.test(event.target.tagName) && event.target.id !== 'scrub') return;
    const work = { ' ': toggle, ArrowRight: () => event.shiftKey ? jump(1) : step(1), ArrowLeft: () => event.shiftKey ? jump(-1) : step(-1) }[event.key];
    if (!work) return;
    event.preventDefault();
    work();
  });
}

export async function play() {
  line = await (await fetch('/v1/timeline')).json();
  const bad = line.events.filter(event => ['warning', 'bad'].includes(event.grade)).map(event => ({ at: event.time, kind: 'fault', text: event.text }));
  const faults = line.notes.filter(note => note.kind === 'fault' || note.kind === 'violation');
  line.marks = (faults.length ? faults : bad).toSorted((a, b) => a.at - b.at);
  line.times = [...new Set([...line.frames.map(each => each.at), ...line.notes.map(each => each.at)])].sort((a, b) => a - b);
  const left = [
    line.notes_left_out ? `${line.notes_left_out} notes` : '', line.messages_left_out ? `${line.messages_left_out} messages` : '',
  ].filter(Boolean).join(' and ');
  at('origin').textContent = left ? `${line.title}; ${left} are left out` : line.title;
  now = line.from;
  controls();
  const wanted = Number(new URLSearchParams(location.search).get('at'));
  go(wanted ? line.from + wanted * 1e6 : line.from);
}
