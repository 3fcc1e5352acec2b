// The nodes as a ring, in the order of their arrival: who leads, who votes, who learns, what flows between them.

import { at, plural, svg, swatch, tip, el } from './dom.js';
import { colour } from './colours.js';
import { model, onChange } from './model.js';
import { choose, chosen } from './choice.js';

const WIDE = 420, HIGH = 380, X = WIDE / 2, Y = HIGH / 2;

function places(nodes) {
  const radius = nodes.length > 1 ? 128 : 0;
  return new Map(nodes.map((node, index) => {
    const angle = -Math.PI / 2 + index * 2 * Math.PI / nodes.length;
    return [node.name, { x: X + radius * Math.cos(angle), y: Y + radius * Math.sin(angle), angle }];
  }));
}

function office(status, name) {
  const government = status.government;
  if (government.leader === name) return 'leader';
  if ([...government.majority, ...government.minority].includes(name)) return 'voter';
  return 'learner';
}

const GONE = new Set(['absent', 'departed', 'down', 'idle']);
const WEAK = new Set(['arriving', 'paused']);

// A chord that bends towards the middle.
const chord = (a, b) => `M${a.x} ${a.y} Q${X + (a.x + b.x - 2 * X) * .12} ${Y + (a.y + b.y - 2 * Y) * .12} ${b.x} ${b.y}`;

function along(a, b, part) {
  const cx = X + (a.x + b.x - 2 * X) * .12, cy = Y + (a.y + b.y - 2 * Y) * .12;
  const mix = (p, q, r) => (1 - part) ** 2 * p + 2 * (1 - part) * part * q + part ** 2 * r;
  return { x: mix(a.x, cx, b.x), y: mix(a.y, cy, b.y) };
}

function drawNode(status, node, place, size, many) {
  const gone = GONE.has(node.state);
  const role = office(status, node.name);
  const group = svg('g', {
    class: chosen() && chosen() !== node.name ? 'node dim' : 'node',
    'data-node': node.name,
    onclick: () => choose(node.name),
  });
  if (gone) {
    group.append(svg('circle', { class: 'gone', cx: place.x, cy: place.y, r: size }));
  } else {
    group.append(
      svg('circle', { cx: place.x, cy: place.y, r: size, fill: colour(node.name), opacity: WEAK.has(node.state) ? .4 : 1 }),
      svg('circle', { class: `halo ${role}`, cx: place.x, cy: place.y, r: size + 5 }),
    );
  }
  if (!many) {
    const out = size + 13, cos = Math.cos(place.angle), sin = Math.sin(place.angle);
    const anchor = Math.abs(cos) < .3 ? 'middle' : cos > 0 ? 'start' : 'end';
    const x = place.x + out * cos, y = place.y + (out + (Math.abs(cos) < .3 ? 8 : 0)) * sin + (sin < -.3 ? -10 : 2);
    const what = node.state === 'present' ? `${node.primaries} of ${node.copies}` : node.state;
    group.append(
      svg('text', { class: 'name', x, y, 'text-anchor': anchor },
        node.name, role === 'leader' && !gone ? svg('tspan', { class: 'badge', dx: 5 }, 'leads') : null),
      svg('text', { class: 'sub', x, y: y + 14, 'text-anchor': anchor }, what),
    );
  }
  const words = () => [
    `${node.name}: ${node.state}`,
    gone ? '' : { leader: 'leads', voter: 'votes', learner: 'learns' }[role],
    `primary of ${plural(node.primaries, 'bucket')}, ${plural(node.copies, 'copy', 'copies')}`,
    node.zone ? `zone ${node.zone}` : '',
  ].filter(Boolean).join('\n');
  group.addEventListener('pointermove', event => tip(words(), event));
  group.addEventListener('pointerleave', () => tip());
  return group;
}

function flows(spots) {
  const pairs = new Map();
  for (const { from, to, bucket } of model.status.moves) {
    const source = model.buckets.get(bucket)?.primary ?? from[0];
    for (const target of to) if (source !== target) pairs.set(`${source}→${target}`, [source, target]);
  }
  return [...pairs.values()].map(([from, to]) => {
    const a = spots.get(from), b = spots.get(to);
    return a && b ? svg('path', { class: 'flow', d: chord(a, b) }) : null;
  });
}

function messages(spots) {
  return model.messages.flatMap(({ from, to, part, lost }) => {
    const a = spots.get(from), b = spots.get(to);
    if (!a || !b) return [];
    const dot = along(a, b, part);
    return [
      svg('path', { class: lost ? 'message lost' : 'message', d: chord(a, b) }),
      svg('circle', { class: lost ? 'dot lost' : 'dot', cx: dot.x, cy: dot.y, r: 3 }),
    ];
  });
}

function draw() {
  const { status } = model;
  const ring = at('ring');
  if (!status) return;
  // Departed ones stand aside once others are there.
  const here = status.nodes.filter(node => node.state !== 'departed');
  const nodes = (here.length < 12 ? status.nodes : here).toSorted((a, b) => a.id - b.id);
  if (!nodes.length) {
    ring.replaceChildren(svg('text', { class: 'middle', x: X, y: Y }, 'no cluster yet'));
    return;
  }
  const many = nodes.length > 24;
  const size = Math.max(4, Math.min(17, 200 / nodes.length));
  const spots = places(nodes);
  const voters = status.government.majority.length + status.government.minority.length;
  ring.replaceChildren(
    nodes.length > 1 ? svg('circle', { class: 'orbit', cx: X, cy: Y, r: 128 }) : '',
    ...flows(spots).filter(Boolean),
    ...messages(spots),
    ...(nodes.length > 1 ? [
      svg('text', { class: 'middle', x: X, y: Y - 2 }, here.length),
      svg('text', { class: 'sub', x: X, y: Y + 16, 'text-anchor': 'middle' }, `${here.length === 1 ? 'node' : 'nodes'}, ${voters} vote`),
      svg('text', { class: 'sub', x: X, y: Y + 31, 'text-anchor': 'middle' }, `slot ${status.decided.toLocaleString('en')}`),
    ] : []),
    ...nodes.map(node => drawNode(status, node, spots.get(node.name), size, many)),
  );
  at('ring-legend').replaceChildren(
    el('span', {}, swatch('', 'line leader'), 'leads'),
    el('span', {}, swatch('', 'line'), 'votes'),
    el('span', {}, swatch('', 'line learner'), 'learns'),
    el('span', {}, 'under a name: primaries of copies'),
  );
}

onChange(['status', 'buckets', 'choice', 'messages'], draw);
