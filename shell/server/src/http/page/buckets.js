// The map of all buckets: a cell each, in the order of their slots, coloured by primary and marked by state. Cells are as
// large as fits: sixteen have room for words, sixteen thousand are specks that still show who has what.

import { at, el, plural, swatch, tip } from './dom.js';
import { colour, inkOn, variable } from './colours.js';
import { changed, model, onChange } from './model.js';
import { choose, chosen } from './choice.js';
import { askSplit } from './operate.js';

const HIGH = 300;
let cells = [];
// Of a cell, and how many stand in a row.
let wide = 0, high = 0, columns = 1;
let selected = null;
// Something is not as it should be.
let troubled = false;

function layout(count, room) {
  const fit = Math.sqrt(room * HIGH / Math.max(count, 1));
  const side = Math.max(3, Math.min(room < 600 ? 40 : 56, Math.floor(fit)));
  columns = Math.max(1, Math.min(count, Math.floor(room / side)));
  // Rows of a power of two show at a glance how often buckets were halved.
  const power = 2 ** Math.floor(Math.log2(columns));
  if (power >= columns * .6 || count <= 256) columns = power;
  wide = room / columns;
  high = Math.min(side, wide, 44);
  return Math.ceil(count / columns);
}

function stripes(context, x, y, across, down, ink) {
  context.save();
  context.beginPath();
  context.rect(x, y, across, down);
  context.clip();
  context.strokeStyle = ink;
  context.lineWidth = Math.max(1, down / 9);
  for (let along = -down; along < across; along += Math.max(3, down / 3.2)) {
    context.beginPath();
    context.moveTo(x + along, y + down);
    context.lineTo(x + along + down, y);
    context.stroke();
  }
  context.restore();
}

function drawCell(context, cell, { x, y, across, down }, inks) {
  const side = Math.min(across, down);
  const lost = cell.state === 'lost', paused = cell.state === 'paused';
  const node = chosen();
  const mine = !node || cell.primary === node || cell.members.includes(node) || cell.catchingUp.includes(node);
  context.globalAlpha = mine ? (node && cell.primary !== node ? .5 : 1) : .12;
  // Among specks, those with nothing to tell step back as soon as one has.
  const well = cell.state === 'serving' && !cell.catchingUp.length;
  if (!node && troubled && side < 9 && well) context.globalAlpha = .3;
  context.fillStyle = lost ? inks.bad : paused && side < 9 ? inks.warn : cell.primary ? colour(cell.primary) : inks.line;
  context.fillRect(x, y, across, down);
  if (lost) {
    context.strokeStyle = inks.card;
    context.lineWidth = Math.max(1, side / 8);
    const half = side * .25, cx = x + across / 2, cy = y + down / 2;
    context.beginPath();
    context.moveTo(cx - half, cy - half);
    context.lineTo(cx + half, cy + half);
    context.moveTo(cx + half, cy - half);
    context.lineTo(cx - half, cy + half);
    context.stroke();
  } else if (paused && side >= 9) {
    stripes(context, x, y, across, down, inks.card);
  } else if (cell.state === 'splitting') {
    context.fillStyle = inks.card;
    context.fillRect(x + across / 2 - Math.max(.5, side / 18), y, Math.max(1, side / 9), down);
  } else if (cell.state === 'short') {
    // A piece is missing.
    context.fillStyle = inks.card;
    const bite = Math.max(1.5, side * .42);
    context.beginPath();
    context.moveTo(x + across, y + down - bite);
    context.lineTo(x + across, y + down);
    context.lineTo(x + across - bite, y + down);
    context.fill();
  }
  if (cell.catchingUp.length && side >= 3) {
    const dot = Math.max(1, side / 8);
    context.fillStyle = inks.card;
    context.beginPath();
    context.arc(x + side * .22, y + side * .22, dot, 0, 7);
    context.fill();
  }
  if (across >= 32 && side >= 18 && !lost && !paused && cell.first >= 0) {
    context.fillStyle = cell.primary ? inkOn(cell.primary) : inks.ink;
    context.font = `600 ${Math.min(12.5, across / 3.3)}px system-ui, "DejaVu Sans", sans-serif`;
    context.textBaseline = 'middle';
    context.textAlign = 'center';
    context.fillText(String(cell.first), x + across / 2, y + down / 2);
  }
  if (cell.first === selected) {
    context.globalAlpha = 1;
    context.strokeStyle = inks.ink;
    context.lineWidth = 2;
    context.strokeRect(x + 1, y + 1, across - 2, down - 2);
  }
  context.globalAlpha = 1;
}

// Whole pixels, so that the smallest cells stay crisp.
function spot(place) {
  const column = place % columns, row = Math.floor(place / columns);
  const gap = Math.min(wide, high) >= 7 ? (Math.min(wide, high) >= 20 ? 2 : 1) : 0;
  const x = Math.round(column * wide), y = Math.round(row * high);
  const across = Math.round((column + 1) * wide) - x - gap, down = Math.round((row + 1) * high) - y - gap;
  return { x, y, across, down };
}

function draw() {
  const canvas = at('map');
  cells = [...model.buckets.values()].sort((a, b) => a.first - b.first);
  at('bucket-count').textContent = cells.length ? cells.length.toLocaleString('en') : '';
  const room = canvas.parentElement.clientWidth;
  if (!room) return;
  const rows = layout(cells.length, room);
  const depth = cells.length ? Math.round(rows * high) : 60;
  const scale = devicePixelRatio || 1;
  canvas.width = room * scale;
  canvas.height = depth * scale;
  canvas.style.height = `${depth}px`;
  const context = canvas.getContext('2d');
  context.scale(scale, scale);
  const inks = { card: variable('--card'), line: variable('--line'), bad: variable('--bad'), warn: variable('--warn'), ink: variable('--ink') };
  if (!cells.length) {
    context.fillStyle = variable('--soft');
    context.font = '14px system-ui, sans-serif';
    context.textAlign = 'center';
    context.fillText('no buckets are placed yet', room / 2, 34);
  }
  troubled = cells.some(cell => cell.state !== 'serving' || cell.catchingUp.length);
  cells.forEach((cell, place) => drawCell(context, cell, spot(place), inks));
  legend();
  details();
}

const MARKS = { short: 'short of copies', paused: 'paused', splitting: 'being split', lost: 'lost' };

function legend() {
  const primaries = new Map();
  const states = {};
  let moving = 0;
  for (const cell of cells) {
    if (cell.primary) primaries.set(cell.primary, (primaries.get(cell.primary) ?? 0) + 1);
    states[cell.state] = (states[cell.state] ?? 0) + 1;
    moving += cell.catchingUp.length > 0;
  }
  const names = (model.status?.nodes ?? []).toSorted((a, b) => a.id - b.id).map(node => node.name);
  const nodes = names.filter(name => primaries.has(name)).slice(0, 24).map(name => {
    const item = el('span', { onclick: () => choose(name) }, swatch(colour(name)), `${name} ${primaries.get(name)}`);
    item.style.cursor = 'pointer';
    return item;
  });
  const marks = Object.entries(MARKS).filter(([state]) => states[state])
    .map(([state, words]) => el('span', {}, mark(state), `${states[state].toLocaleString('en')} ${words}`));
  if (moving) marks.push(el('span', {}, mark('moving'), `${moving.toLocaleString('en')} moving`));
  at('map-legend').replaceChildren(...nodes, ...marks);
}

function mark(state) {
  const canvas = el('canvas', { width: 26, height: 26 });
  canvas.style.width = canvas.style.height = '13px';
  const context = canvas.getContext('2d');
  const cell = { first: NaN, state: state === 'moving' ? 'serving' : state, primary: null, members: [], catchingUp: state === 'moving' ? ['x'] : [] };
  const inks = { card: variable('--card'), line: variable('--soft'), bad: variable('--bad'), warn: variable('--warn'), ink: variable('--ink') };
  const picked = chosen();
  if (picked) cell.members = [picked];
  drawCell(context, cell, { x: 0, y: 0, across: 26, down: 26 }, inks);
  return canvas;
}

function details() {
  const box = at('bucket');
  const cell = selected === null ? null : model.buckets.get(selected);
  box.hidden = !cell;
  if (!cell) return;
  const item = (term, value) => el('dl', {}, el('dt', {}, term), el('dd', {}, value));
  box.replaceChildren(
    item('Bucket', String(cell.first)),
    item('Hash slots', `${cell.first} to ${cell.last}`),
    item('State', cell.catchingUp.length ? `${cell.state}, moving` : cell.state),
    item('Primary', cell.primary ?? 'nobody'),
    item('Members', cell.members.join(', ') || 'none'),
    cell.catchingUp.length ? item('Catching up', cell.catchingUp.join(', ')) : null,
    document.documentElement.dataset.source === 'live'
      ? el('button', { class: 'small', type: 'button', onclick: () => askSplit(cell.first) }, 'Split this one…') : null,
  );
}

function cellAt(event) {
  const box = at('map').getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left) / wide), row = Math.floor((event.clientY - box.top) / high);
  return column < columns && column >= 0 ? cells[row * columns + column] : undefined;
}

export function start() {
  const canvas = at('map');
  canvas.addEventListener('pointermove', event => {
    const cell = cellAt(event);
    tip(cell && [
      `bucket ${cell.first}, slots to ${cell.last}`,
      `${cell.state}; primary ${cell.primary ?? 'nobody'}`,
      `members ${cell.members.join(', ') || 'none'}`,
      cell.catchingUp.length ? `catching up: ${cell.catchingUp.join(', ')}` : '',
    ].filter(Boolean).join('\n'), event);
  });
  canvas.addEventListener('pointerleave', () => tip());
  canvas.addEventListener('click', event => {
    const cell = cellAt(event);
    selected = cell && cell.first !== selected ? cell.first : null;
    changed('buckets');
  });
  addEventListener('resize', () => changed('buckets'));
  onChange(['buckets', 'status', 'choice', 'theme'], draw);
}
