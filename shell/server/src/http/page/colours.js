// A colour for each node, by its place in the order of arrival. The palette is told apart also by people who do not see
// all colours, on light and on dark ground; beyond it, shades of it.

const PALETTE = ['#4477aa', '#e69f00', '#1f9e77', '#cc6677', '#7f7fd5', '#88a52d', '#56b4e9', '#aa4499', '#b8860b', '#5f7a8a'];

const known = new Map();

// Nodes keep their colours for as long as the page is open, whoever comes and goes.
export function learn(nodes) {
  for (const node of nodes) if (!known.has(node.name)) known.set(node.name, known.size);
}

function mix(hex, other, part) {
  const parts = [1, 3, 5].map(at => {
    const a = parseInt(hex.slice(at, at + 2), 16), b = parseInt(other.slice(at, at + 2), 16);
    return Math.round(a + (b - a) * part).toString(16).padStart(2, '0');
  });
  return `#${parts.join('')}`;
}

export function colour(name) {
  const place = known.get(name);
  if (place === undefined) return '#9aa5a9';
  const shade = Math.floor(place / PALETTE.length);
  const base = PALETTE[place % PALETTE.length];
  if (shade === 0) return base;
  return shade % 2 ? mix(base, '#ffffff', Math.min(.35 * Math.ceil(shade / 2), .7)) : mix(base, '#000000', .3);
}

// Black or white, whichever can be read on it.
export function inkOn(name) {
  const hex = colour(name);
  const [red, green, blue] = [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
  return red * .299 + green * .587 + blue * .114 > 140 ? '#12202a' : '#ffffff';
}

export const variable = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
