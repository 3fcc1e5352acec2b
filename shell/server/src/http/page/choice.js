// The node that a person has picked: its buckets stand out, the others step back.

import { changed } from './model.js';

let picked = null;

export const chosen = () => picked;

export function choose(name) {
  picked = picked === name ? null : name;
  changed('choice');
}
