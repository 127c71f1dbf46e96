// The data block as columns of chips, and the arithmetic of groups.
// A chip is called by its index in the picture, in the order of the columns.

export const data = JSON.parse(document.getElementById("data").textContent);

/** Return the integers of a list in which [first, step, count] is a run. */
export function unpack(packed) {
  const values = [];
  for (const item of packed) {
    if (typeof item === "number") {
      values.push(item);
      continue;
    }
    const [first, step, count] = item;
    for (let at = 0; at < count; at++) values.push(first + at * step);
  }
  return values;
}

export const ranks = unpack(data.ranks);
export const chips = unpack(data.chips);
export const sizes = unpack(data.sizes);
export const numChips = ranks.length;

/** Index of the first chip of each node, and the number of chips. */
export const starts = [0];
/** Node of each chip. */
export const nodeOf = new Int32Array(numChips);
for (const [node, size] of sizes.entries()) {
  const start = starts.at(-1);
  nodeOf.fill(node, start, start + size);
  starts.push(start + size);
}

export const racks = data.racks.map((one) => ({ ...one, domains: unpack(one.domains) }));
export const findings = data.findings.map((one) => ({ ...one, cells: unpack(one.cells) }));

const NEUTRAL = data.change ? "same" : "sound";
/** What a change says about each chip: same, moved, new or gone. */
export const changes = new Array(numChips).fill(NEUTRAL);
/** Rank before the change of each chip that has moved. */
export const before = new Map();
if (data.change) {
  const moved = unpack(data.change.moved);
  const was = unpack(data.change.before);
  const isNew = new Set(unpack(data.change.new));
  const rankBefore = new Map(moved.map((rank, at) => [rank, was[at]]));
  const gone = new Set(unpack(data.change.gone));
  for (let cell = 0; cell < numChips; cell++) {
    if (gone.has(cell)) changes[cell] = "gone";
    else if (isNew.has(ranks[cell])) changes[cell] = "new";
    else if (rankBefore.has(ranks[cell])) {
      changes[cell] = "moved";
      before.set(cell, rankBefore.get(ranks[cell]));
    }
  }
}

/** The chip of each rank; without those that are gone. */
export const cellOf = new Map();
for (let cell = 0; cell < numChips; cell++) {
  if (changes[cell] !== "gone" && ranks[cell] >= 0 && !cellOf.has(ranks[cell])) {
    cellOf.set(ranks[cell], cell);
  }
}

/** The worst finding about each chip: error, warning, note, sound or gone. */
export const states = changes.map((change) => (change === "gone" ? "gone" : "sound"));
for (const [severity, cells] of Object.entries(data.states)) {
  for (const cell of unpack(cells)) states[cell] = severity;
}

export const range = (first, end) => Array.from({ length: end - first }, (_, at) => first + at);
export const cellsOfNode = (node) => range(starts[node], starts[node + 1]);
export const local = (cell) => cell - starts[nodeOf[cell]];

/** Return the chips of the nodes of one rack. */
export function cellsOfRack(level, domain) {
  const cells = [];
  racks[level].domains.forEach((one, node) => {
    if (one !== domain) return;
    for (let cell = starts[node]; cell < starts[node + 1]; cell++) cells.push(cell);
  });
  return cells;
}

// A group runs along the inside axes of a grid; the other axes number the groups.
function number(rank, axes) {
  let found = 0;
  let weight = 1;
  for (const [size, stride] of axes) {
    found += (Math.floor(rank / stride) % size) * weight;
    weight *= size;
  }
  return found;
}

function offset(at, axes) {
  let found = 0;
  for (const [size, stride] of axes) {
    found += (at % size) * stride;
    at = Math.floor(at / size);
  }
  return found;
}

export const axes = data.axes;
export const axisNamed = (name) => axes.find((axis) => axis.name === name);
export const placeIn = (axis, rank) => number(rank, axis.inside);
export const groupOf = (axis, rank) => number(rank, axis.outside);
export const numGroups = (axis) => data.world_size / axis.size;

/** Return the ranks of a group, in their order. */
export function members(axis, group) {
  const first = offset(group, axis.outside);
  return range(0, axis.size).map((at) => first + offset(at, axis.inside));
}

/** Return the bytes that one group sends over a boundary in a step. */
export function crossing(flow, domains) {
  const held = new Map();
  for (const domain of domains) held.set(domain, (held.get(domain) ?? 0) + 1);
  if (held.size === 1) return 0;
  if (flow.pattern === "all_to_all") {
    let squares = 0;
    for (const count of held.values()) squares += count * count;
    return (flow.bytes / domains.length) * (domains.length ** 2 - squares);
  }
  if (flow.pattern === "chain" || flow.pattern === "ring") {
    const last = flow.pattern === "ring" ? flow.bytes : flow.wrap_bytes;
    return domains.reduce((sum, domain, at) => {
      const isLast = at + 1 === domains.length;
      const next = domains[isLast ? 0 : at + 1];
      return sum + (domain === next ? 0 : isLast ? last : flow.bytes);
    }, 0);
  }
  return (held.size - 1) * flow.bytes * (flow.pattern === "all_reduce" ? 2 : 1);
}

/** Names of the boundaries, and the domain of a node at each. */
export const boundaries = [
  { name: "node", of: (node) => node },
  ...racks.map((one) => ({ name: one.name, of: (node) => one.domains[node] })),
];

/** Return numbers in their order, with runs at equal distances as ranges: 0-3, 8,12..24. */
export function folded(numbers, most = 24) {
  const parts = [];
  for (let at = 0; at < numbers.length; ) {
    const gap = numbers[at + 1] - numbers[at];
    let end = at + 1;
    while (end < numbers.length && numbers[end] - numbers[end - 1] === gap) end++;
    if (end - at < 3) {
      parts.push(`${numbers[at]}`);
      at += 1;
      continue;
    }
    const last = numbers[end - 1];
    parts.push(gap === 1 ? `${numbers[at]}-${last}` : `${numbers[at]},${numbers[at + 1]}..${last}`);
    at = end;
  }
  const shown = parts.slice(0, most).join(", ");
  return parts.length > most ? `${shown}, and more` : shown;
}

const GIB = 1024 ** 3;
/** Return bytes as a number of GiB, and large ones as TiB with the unit. */
export const gib = (bytes) =>
  bytes < 1024 * GIB ? (bytes / GIB).toFixed(2) : `${(bytes / GIB / 1024).toFixed(2)} TiB`;
export const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

/** Return what a chip is, in one line. */
export function describe(cell) {
  const parts = [ranks[cell] < 0 ? "no readable rank" : `rank ${ranks[cell]}`];
  parts.push(data.hosts[nodeOf[cell]], chips[cell] < 0 ? "no chip" : `chip ${chips[cell]}`);
  if (changes[cell] === "gone") return `${parts.join(" · ")} · gone`;
  if (axes.length) {
    parts.push(axes.map((axis) => `${axis.name} ${placeIn(axis, ranks[cell])}`).join(", "));
  }
  if (before.has(cell)) parts.push(`was rank ${before.get(cell)}`);
  if (changes[cell] === "new") parts.push("new");
  const found = findings.filter((finding) => finding.cells.includes(cell));
  parts.push(...found.slice(0, 3).map((one) => one.code));
  return parts.join(" · ");
}
