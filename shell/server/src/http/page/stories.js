// What happened, told as stories: what it began with, what that led to, how it ended.

import { at, el } from './dom.js';
import { model, onChange } from './model.js';

const SHOWN = 150;
const GRADES = ['good', 'plain', 'warning', 'bad'];
const GOVERNMENT = new Set(['founded', 'recovered', 'elected', 'seated', 'arrived', 'departed']);

// A simulation begins at zero; a real cluster in our time.
export function clock(micros) {
  if (micros < 1e14) return `${(micros / 1e6).toFixed(3)} s`;
  const date = new Date(micros / 1000);
  const today = date.toDateString() === new Date().toDateString();
  return today ? date.toLocaleTimeString() : date.toLocaleString();
}

function gather(limit, filter) {
  const stories = new Map();
  const words = filter?.toLowerCase();
  for (const event of model.events.values()) {
    const story = stories.get(event.story) ?? [];
    story.push(event);
    stories.set(event.story, story);
  }
  let list = [...stories.values()].sort((a, b) => b.at(-1).id - a.at(-1).id);
  if (words) list = list.filter(story => story.some(event => event.text.toLowerCase().includes(words)));
  return list.slice(0, limit);
}

function tell(story) {
  // How it stands now: what ended well is well.
  const last = story.at(-1);
  const worst = Math.max(...story.map(event => GRADES.indexOf(event.grade)));
  const grade = last.kind === 'healthy' || last.grade === 'good' ? 'good' : GRADES[worst];
  const steps = story.flatMap((event, place) => [
    place ? el('span', { class: 'arrow' }, '→') : null,
    el('span', { class: `step ${event.grade}`, title: `slot ${event.slot}, ${clock(event.time)}` }, event.text),
  ]);
  return el('div', { class: `story ${grade}` }, el('time', {}, clock(story[0].time)), steps);
}

const nothing = words => el('p', { class: 'empty' }, words);

function draw() {
  const few = gather(6);
  at('lately').replaceChildren(...(few.length ? few.map(tell) : [nothing('nothing has happened yet')]));
  if (at('events').hidden) return;
  const filter = at('event-filter').value.trim();
  const all = gather(SHOWN, filter);
  at('stories').replaceChildren(...(all.length ? all.map(tell) : [nothing(filter ? 'nothing like that' : 'nothing has happened yet')]));
  const governments = [...model.events.values()].filter(event => GOVERNMENT.has(event.kind)).reverse().slice(0, SHOWN);
  at('governments').replaceChildren(...governments.map(event =>
    el('li', {}, el('span', {}, String(event.slot)), el('span', {}, event.text))));
}

export function start() {
  at('event-filter').addEventListener('input', draw);
  onChange(['events', 'tab'], draw);
}
