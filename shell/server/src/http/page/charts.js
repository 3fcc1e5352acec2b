// Throughput and latency over the last five minutes, of the cluster and of each node.

import { at, el, short, span, svg } from './dom.js';
import { colour, variable } from './colours.js';
import { changed, model, onChange } from './model.js';
import { chosen } from './choice.js';

// What is shown: all there is, up to five minutes, and no less than one.
const LEAST = 60, MOST = 300;
const WIDE = 600, HIGH = 150, TOP = 34;
const hover = { second: null };

// A round number, not below.
function ceiling(most) {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 1.5, 2, 3, 4, 5, 7.5, 10].map(step => step * power).find(step => step >= most);
}

function path(points) {
  let text = '', pen = false;
  for (const point of points) {
    if (!point) {
      pen = false;
      continue;
    }
    text += `${pen ? 'L' : 'M'}${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
    pen = true;
  }
  return text;
}

function chart(box, lines, words, unit) {
  const newest = Math.max(0, ...lines.map(line => line.seconds.at(-1)?.second ?? 0));
  const longest = Math.max(...lines.map(line => line.seconds.length));
  const shown = Math.max(LEAST, Math.min(MOST, longest));
  const values = lines.flatMap(line => line.seconds.map(line.value)).filter(value => value !== null);
  const most = ceiling(Math.max(1, ...values));
  const x = second => WIDE * (1 - (newest - second) / (shown - 1));
  const y = value => HIGH - (HIGH - TOP) * value / most;
  const drawing = svg('svg', { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  drawing.append(
    svg('line', { class: 'axis', x1: 0, x2: WIDE, y1: HIGH, y2: HIGH, 'vector-effect': 'non-scaling-stroke' }),
    svg('line', { class: 'axis', x1: 0, x2: WIDE, y1: TOP, y2: TOP, 'vector-effect': 'non-scaling-stroke' }),
  );
  for (const line of lines) {
    const points = line.seconds.map(second => {
      const value = line.value(second);
      return value === null ? null : [x(second.second), y(value)];
    });
    const d = path(points);
    if (line.all && points.length > 1 && points.every(Boolean)) {
      const area = `${d}L${points.at(-1)[0]} ${HIGH}L${points[0][0]} ${HIGH}Z`;
      drawing.append(svg('path', { class: 'area', d: area, fill: line.colour }));
    }
    drawing.append(svg('path', {
      class: line.all ? 'series all' : 'series', d, stroke: line.colour, 'vector-effect': 'non-scaling-stroke',
      'stroke-dasharray': line.dashed ? '4 3' : null,
    }));
  }
  if (hover.second !== null && newest) {
    const at = x(hover.second);
    drawing.append(svg('line', { class: 'cursor', x1: at, x2: at, y1: TOP, y2: HIGH, 'vector-effect': 'non-scaling-stroke' }));
  }
  const top = el('span', { class: 'mark' }, `${unit(most)}`);
  top.style.top = `${100 * TOP / HIGH}%`;
  box.replaceChildren(drawing, el('div', { class: 'figure' }, ...words), values.length ? top : '',
    values.length ? '' : el('div', { class: 'none' }, 'no requests in the last five minutes'));
  box.onpointermove = event => {
    const area = box.getBoundingClientRect();
    const part = (event.clientX - area.left) / area.width;
    hover.second = Math.round(newest - (1 - part) * (shown - 1));
    changed('rates');
  };
  box.onpointerleave = () => {
    hover.second = null;
    changed('rates');
  };
}

function draw() {
  const select = at('rate-node');
  const names = [...model.rates.nodes.keys()].sort();
  const wanted = chosen() && names.includes(chosen()) ? chosen() : select.value;
  if (select.dataset.names !== names.join()) {
    select.dataset.names = names.join();
    select.replaceChildren(el('option', { value: '' }, 'the cluster'), ...names.map(name => el('option', { value: name }, name)));
  }
  select.value = names.includes(wanted) ? wanted : '';
  const one = select.value;
  const main = one ? model.rates.nodes.get(one) : model.rates.cluster;
  const accent = one ? colour(one) : variable('--accent');
  const others = one ? [] : names.map(name => ({ name, seconds: model.rates.nodes.get(name), colour: colour(name) }));
  const shown = (hover.second !== null && main.find(second => second.second === hover.second)) || main.at(-1);
  const when = hover.second !== null && shown ? new Date(shown.second * 1000).toLocaleTimeString() : '';
  const figure = (value, unit) => el('span', {}, el('b', {}, value), unit);
  chart(at('throughput'), [
    ...others.map(line => ({ ...line, value: second => second.reads + second.writes })),
    { seconds: main, colour: accent, all: true, value: second => second.reads + second.writes },
  ], [
    figure(shown ? short(shown.reads) : '–', 'reads/s'), figure(shown ? short(shown.writes) : '–', 'writes/s'), when,
  ], most => `${short(most)}/s`);
  chart(at('latency'), [
    ...others.map(line => ({ ...line, value: second => second.p99 })),
    { seconds: main, colour: accent, all: true, value: second => second.p50 },
    { seconds: main, colour: accent, all: true, dashed: true, value: second => second.p99 },
  ], [
    figure(span(shown?.p50), 'p50'), figure(span(shown?.p99), 'p99, dashed'), when,
  ], span);
}

export function start() {
  at('rate-node').addEventListener('change', () => changed('rates'));
  onChange(['rates', 'choice', 'theme'], draw);
}
