// Puts the page together: views, tabs, light and dark, and the source: a running node, or a timeline.

import { at } from './dom.js';
import { changed, drawAll } from './model.js';
import './health.js';
import './ring.js';
import * as buckets from './buckets.js';
import * as charts from './charts.js';
import * as data from './data.js';
import * as operate from './operate.js';
import * as stories from './stories.js';

const TABS = ['overview', 'events', 'data'];

function tab() {
  const wanted = location.hash.slice(1);
  const shown = TABS.includes(wanted) ? wanted : 'overview';
  for (const name of TABS) at(name).hidden = name !== shown;
  for (const link of document.querySelectorAll('[data-tab]')) {
    if (link.dataset.tab === shown) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  changed('tab');
  drawAll();
}

function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function theme() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const root = document.documentElement;
  const saved = remembered('theme');
  if (saved) root.dataset.theme = saved;
  at('theme').addEventListener('click', () => {
    const now = root.dataset.theme ?? (dark.matches ? 'dark' : 'light');
    root.dataset.theme = now === 'dark' ? 'light' : 'dark';
    try {
      localStorage.setItem('theme', root.dataset.theme);
    } catch {
      // Where nothing can be kept, it holds for this page.
    }
    changed('theme');
  });
  dark.addEventListener('change', () => changed('theme'));
}

theme();
buckets.start();
charts.start();
stories.start();
addEventListener('hashchange', tab);
if (document.documentElement.dataset.source === 'live') {
  data.start();
  operate.start();
  const { follow } = await import('./live.js');
  follow();
} else {
  const { play } = await import('./timeline.js');
  play();
}
tab();
