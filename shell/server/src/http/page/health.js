// Whether it is well, and if not why and what to do; moves under way; the table of members.

import { at, el, plural, swatch } from './dom.js';
import { colour, learn } from './colours.js';
import { model, onChange } from './model.js';
import { askDrain, stay } from './operate.js';

const MOVES_SHOWN = 12;

function pill(words, grade) {
  const node = at('health');
  node.textContent = words;
  node.className = `pill ${grade}`;
}

// What stands between backquotes is to be typed.
const coded = text => text.split('`').map((part, place) => place % 2 ? el('code', {}, part) : part);

function drawHealth() {
  const { status, connected } = model;
  const live = document.documentElement.dataset.source === 'live';
  if (live && !connected) pill('no answer', 'bad');
  else if (!status) pill('connecting', '');
  else if (status.healthy) pill('healthy', 'good');
  else pill(plural(status.problems.length, 'problem'), status.alarms.length ? 'bad' : 'warn');
  if (!status) return;
  if (live) at('origin').textContent = status.cluster_id ? `cluster ${status.cluster_id}, seen from ${status.node}` : '';
  document.title = `${status.healthy ? '' : '● '}Atoll${status.node ? ` · ${status.node}` : ''}`;
  const boxes = [];
  if (live && !connected) {
    boxes.push(el('div', { class: 'alarm bad' }, el('b', {}, 'This node does not answer.'),
      el('p', {}, 'What is below is how it was. The page tries again by itself; any other node shows the same at its own address.')));
  }
  status.alarms.forEach((alarm, place) => boxes.push(
    el('div', { class: 'alarm bad' }, el('b', {}, alarm), el('p', {}, coded(status.advice?.[place] ?? '')))));
  if (status.problems.length) {
    const list = status.problems.map(problem => el('li', {}, problem));
    boxes.push(el('div', { class: 'alarm' }, el('b', {}, 'Not healthy'), el('ul', {}, list)));
  }
  at('alarms').replaceChildren(...boxes);
}

const KINDS = {
  expand: move => `bucket ${move.bucket}: a copy is made on ${move.to.join(', ')}`,
  unite: move => `bucket ${move.bucket}: ${move.to.join(', ')} become a member`.replace(/^(.*: [^,]*) become/, '$1 becomes'),
  split: move => `bucket ${move.bucket} is halved`,
};

function drawMoves() {
  const { moves } = model.status;
  at('move-count').textContent = moves.length ? moves.length.toLocaleString('en') : '';
  if (!moves.length) {
    at('moves').replaceChildren(el('p', { class: 'empty' }, 'no bucket is on the move'));
    return;
  }
  const rows = moves.slice(0, MOVES_SHOWN).map(move => {
    const part = Math.round(move.progress * 100);
    const fill = el('i', {});
    fill.style.width = `${part}%`;
    const words = KINDS[move.kind]?.(move) ?? `bucket ${move.bucket}: ${move.kind}`;
    return el('div', { class: 'move' }, el('span', {}, words), el('span', { class: 'quiet' }, `${part} %`), el('div', { class: 'bar' }, fill));
  });
  if (moves.length > MOVES_SHOWN) rows.push(el('p', { class: 'quiet' }, `and ${moves.length - MOVES_SHOWN} more`));
  at('moves').replaceChildren(...rows);
}

function office(government, name) {
  if (government.leader === name) return 'leads';
  if (government.majority.includes(name) || government.minority.includes(name)) return 'votes';
  return government.learners.includes(name) ? 'learns' : '';
}

function drawMembers() {
  const { nodes, government } = model.status;
  const live = document.documentElement.dataset.source === 'live';
  const head = ['Name', 'State', 'Office', 'Primaries', 'Copies', 'HTTP', 'RESP', 'Peers', 'Zone', live ? '' : null];
  const rows = nodes.toSorted((a, b) => a.id - b.id).map(node => {
    const action = !live ? null
      : node.state === 'present' ? el('button', { class: 'small', type: 'button', 'data-drain': node.name, onclick: () => askDrain(node.name) }, 'Drain…')
      : node.state === 'draining' ? el('button', { class: 'small', type: 'button', onclick: () => stay(node.name) }, 'Stay')
      : '';
    const cells = [
      el('td', {}, swatch(colour(node.name), 'round'), node.name, el('span', { class: 'quiet' }, ` #${node.id}`)),
      el('td', { class: `state ${node.state}` }, node.state),
      el('td', {}, office(government, node.name)),
      el('td', {}, String(node.primaries)),
      el('td', {}, String(node.copies)),
      el('td', { class: 'quiet' }, node.http),
      el('td', { class: 'quiet' }, node.resp),
      el('td', { class: 'quiet' }, node.peer),
      el('td', { class: 'quiet' }, node.zone),
      live ? el('td', {}, action) : null,
    ];
    return el('tr', { class: node.state === 'departed' ? 'gone' : '', 'data-member': node.name }, cells);
  });
  const titles = head.filter(title => title !== null).map(title => el('th', {}, title));
  at('members').replaceChildren(el('thead', {}, el('tr', {}, titles)), el('tbody', {}, rows));
}

function draw() {
  if (model.status) learn(model.status.nodes.toSorted((a, b) => a.id - b.id));
  drawHealth();
  if (!model.status) return;
  drawMoves();
  drawMembers();
}

onChange(['status', 'connection'], draw);
