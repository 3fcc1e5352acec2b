// The source of a running node: one connection, over which everything comes that changes. The browser takes it up again
// by itself when it breaks, with the last id it saw; where it gives up, we begin anew.

import { addRates, setBuckets, setConnected, setEvents, setStatus } from './model.js';

const AGAIN = 1000;

export function follow() {
  const source = new EventSource('/v1/events');
  const on = (kind, take) => source.addEventListener(kind, event => {
    setConnected(true);
    take(JSON.parse(event.data));
  });
  on('status', setStatus);
  on('buckets', setBuckets);
  on('events', setEvents);
  on('rates', addRates);
  source.onopen = () => setConnected(true);
  source.onerror = () => {
    setConnected(false);
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, AGAIN);
  };
}
