// What an operator can do: first the plan is shown, then, on a second click, it is done.

import { at, el, plural } from './dom.js';

const SHOWN = 200;

async function ask(method, path) {
  const answer = await fetch(path, { method });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(body.error?.message ?? `the node answered ${answer.status}`);
  return body;
}

const WORDS = {
  copy: move => `bucket ${move.bucket}: a copy is made on ${move.to}`,
  drop: move => `bucket ${move.bucket}: the copy on ${move.from} goes`,
  lead: move => `bucket ${move.bucket}: ${move.to} takes over from ${move.from ?? 'nobody'}`,
  halve: move => `bucket ${move.bucket} is halved`,
};

function summary(moves) {
  const count = {};
  for (const move of moves) count[move.kind] = (count[move.kind] ?? 0) + 1;
  const parts = [
    count.halve && `${plural(count.halve, 'bucket')} halved`,
    count.copy && `${plural(count.copy, 'copy', 'copies')} made`,
    count.lead && `${plural(count.lead, 'primary', 'primaries')} handed over`,
    count.drop && `${plural(count.drop, 'copy', 'copies')} dropped`,
  ].filter(Boolean);
  return parts.length ? parts.join(', ') : 'nothing would move';
}

function planned({ moves, alarms }) {
  const lines = moves.slice(0, SHOWN).map(move => el('div', {}, WORDS[move.kind]?.(move) ?? JSON.stringify(move)));
  if (moves.length > SHOWN) lines.push(el('div', { class: 'quiet' }, `and ${moves.length - SHOWN} more`));
  return [
    el('p', {}, `The plan: ${summary(moves)}.`),
    ...alarms.map(alarm => el('p', { class: 'error' }, alarm)),
    lines.length ? el('div', { class: 'plan' }, lines) : null,
  ].filter(Boolean);
}

async function show(title, about, verb, path) {
  const dialog = at('dialog'), yes = at('dialog-yes');
  at('dialog-title').textContent = title;
  at('dialog-body').replaceChildren(el('p', {}, about), el('p', { class: 'quiet' }, 'working out the plan…'));
  at('dialog-error').textContent = '';
  yes.textContent = verb;
  yes.disabled = true;
  if (!dialog.open) dialog.showModal();
  try {
    const plan = await ask('POST', `${path}${path.includes('?') ? '&' : '?'}plan=true`);
    at('dialog-body').replaceChildren(el('p', {}, about), ...planned(plan));
    yes.disabled = false;
    yes.onclick = async () => {
      yes.disabled = true;
      try {
        await ask('POST', path);
        dialog.close();
      } catch (error) {
        at('dialog-error').textContent = error.message;
        yes.disabled = false;
      }
    };
  } catch (error) {
    at('dialog-body').replaceChildren(el('p', {}, about));
    at('dialog-error').textContent = error.message;
  }
}

const nodePath = name => `/v1/cluster/nodes/${encodeURIComponent(name)}`;

export const askDrain = name => show(`Drain ${name}`,
  `Everything moves off ${name} while it goes on serving; then it departs and its process ends.`,
  'Drain', `${nodePath(name)}/drain`);

export const askSplit = bucket => show(bucket === undefined ? 'Split every bucket' : `Split bucket ${bucket}`,
  'Buckets are halved in place, while they serve. There is no way back.',
  'Split', bucket === undefined ? '/v1/cluster/split' : `/v1/cluster/split?bucket=${bucket}`);

export const askRebalance = () => show('Rebalance',
  'Primaries and copies are levelled out over the nodes that are there.', 'Rebalance', '/v1/cluster/rebalance');

export async function stay(name) {
  try {
    await ask('POST', `${nodePath(name)}/undrain`);
  } catch (error) {
    at('dialog-title').textContent = `${name} cannot stay`;
    at('dialog-body').replaceChildren();
    at('dialog-error').textContent = error.message;
    at('dialog-yes').textContent = 'Stay';
    at('dialog-yes').disabled = true;
    at('dialog').showModal();
  }
}

export function start() {
  at('split').addEventListener('click', () => askSplit());
  at('rebalance').addEventListener('click', askRebalance);
}
