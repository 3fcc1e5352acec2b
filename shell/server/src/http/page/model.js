// What is known, put together from what a source tells; views are drawn from it, at most once a frame.

const SECONDS_KEPT = 300;
const EVENTS_KEPT = 2000;

export const model = {
  status: null,
  // By first slot: {first, last, state, primary, members, catchingUp}
  buckets: new Map(),
  events: new Map(),
  rates: { cluster: [], nodes: new Map() },
  connected: false,
  // Drawn between nodes: {from, to, text, part, lost}
  messages: [],
};

const views = [];
let dirty = new Set();
let asked = false;

export function onChange(what, draw) {
  views.push({ what: new Set(what), draw });
}

export function changed(what) {
  dirty.add(what);
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    const now = dirty;
    dirty = new Set();
    for (const view of views) if ([...view.what].some(part => now.has(part))) view.draw(model);
  });
}

export function drawAll() {
  for (const view of views) for (const part of view.what) changed(part);
}

export function setStatus(status) {
  model.status = status;
  changed('status');
}

export function setBuckets({ all, rows }) {
  if (all) model.buckets = new Map();
  for (const [first, last, state, primary, members, catchingUp] of rows) {
    model.buckets.set(first, { first, last, state, primary, members, catchingUp });
  }
  changed('buckets');
}

export function setEvents({ all, events }) {
  if (all) model.events = new Map();
  for (const event of events) model.events.set(event.id, event);
  for (const id of model.events.keys()) {
    if (model.events.size <= EVENTS_KEPT) break;
    model.events.delete(id);
  }
  changed('events');
}

function join(known, more) {
  const last = known.length ? known[known.length - 1].second : 0;
  const joined = known.concat(more.filter(second => second.second > last));
  return joined.slice(-SECONDS_KEPT);
}

export function addRates({ nodes, cluster }) {
  model.rates.cluster = join(model.rates.cluster, cluster);
  for (const { name, seconds } of nodes) {
    model.rates.nodes.set(name, join(model.rates.nodes.get(name) ?? [], seconds));
  }
  // One that is gone for longer than is shown.
  const newest = model.rates.cluster.at(-1)?.second ?? 0;
  for (const [name, seconds] of model.rates.nodes) {
    if ((seconds.at(-1)?.second ?? newest) < newest - SECONDS_KEPT) model.rates.nodes.delete(name);
  }
  changed('rates');
}

export function setConnected(connected) {
  model.connected = connected;
  changed('connection');
}
