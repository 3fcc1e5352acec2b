// Elements made by hand. Texts are set as texts, never as markup: keys and names come from outside.

export const at = id => document.getElementById(id);

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'onclick') node.addEventListener('click', value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat()) {
    if (child !== undefined && child !== null && child !== false) node.append(child);
  }
  return node;
}

export const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export function swatch(colour, extra = '') {
  const node = el('i', { class: `swatch ${extra}` });
  if (colour) node.style.background = colour;
  return node;
}

// One thing that follows the pointer.
export function tip(text, event) {
  const box = at('tip');
  if (!text) {
    box.hidden = true;
    return;
  }
  box.textContent = text;
  box.hidden = false;
  const wide = box.offsetWidth, high = box.offsetHeight;
  const left = Math.max(8, Math.min(event.clientX + 14, innerWidth - wide - 8));
  const top = event.clientY + 18 + high > innerHeight ? event.clientY - high - 10 : event.clientY + 18;
  box.style.left = `${left}px`;
  box.style.top = `${top}px`;
}

export const plural = (number, one, many = `${one}s`) => `${number.toLocaleString('en')} ${number === 1 ? one : many}`;

// 940 µs, 4.1 ms, 1.2 s
export function span(micros) {
  if (micros === null || micros === undefined) return '–';
  if (micros < 1000) return `${Math.round(micros)} µs`;
  if (micros < 1e6) return `${(micros / 1000).toFixed(micros < 1e4 ? 1 : 0)} ms`;
  return `${(micros / 1e6).toFixed(1)} s`;
}

export function short(number) {
  if (number >= 1e6) return `${(number / 1e6).toFixed(1)}M`;
  if (number >= 1e4) return `${(number / 1e3).toFixed(0)}k`;
  return Math.round(number).toLocaleString('en');
}
