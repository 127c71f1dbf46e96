// What a person may write: rank 12, 12, tp 3, chip 5, rack 2, or part of a host.
import {
  axes, axisNamed, cellOf, cellsOfNode, cellsOfRack, chips, counted, data,
  members, nodeOf, numChips, numGroups, racks, ranks,
} from "./data.js";

/** Return the selection of a chip. */
export const ofCell = (cell) => ({
  cells: [cell],
  title: `${ranks[cell] < 0 ? "no rank" : `rank ${ranks[cell]}`} on ${data.hosts[nodeOf[cell]]}`,
  query: cellOf.get(ranks[cell]) === cell ? `rank ${ranks[cell]}` : "",
});

/** Return the selection of a node. */
export const ofNode = (node) => ({
  cells: cellsOfNode(node),
  title: data.hosts[node],
  query: data.hosts[node],
});

/** Return the selection of a rack. */
export function ofRack(level, domain) {
  const { name, labels } = racks[level];
  const label = labels[domain];
  const title = label.startsWith(name) ? label : `${name} ${label}`;
  return { cells: cellsOfRack(level, domain), title, query: label };
}

/** Return the selection of a group, null if there is none. */
export function ofGroup(axis, group) {
  if (group < 0 || group >= numGroups(axis)) return null;
  const found = members(axis, group);
  return {
    cells: found.map((rank) => cellOf.get(rank)),
    title: `${axis.name} group ${group}, ${counted(axis.size, "rank")}`,
    query: `${axis.name} ${group}`,
    axis,
    group,
  };
}

function ofRanks(first, last) {
  const cells = [];
  for (let rank = first; rank <= last && rank - first < numChips; rank++) {
    if (cellOf.has(rank)) cells.push(cellOf.get(rank));
  }
  if (cells.length === 1) return ofCell(cells[0]);
  return cells.length ? { cells, title: `ranks ${first}-${last}`, query: `${first}-${last}` } : null;
}

function named(text) {
  for (const [level, one] of racks.entries()) {
    const domain = one.labels.findIndex((label) => label.toLowerCase() === text);
    if (domain >= 0) return ofRack(level, domain);
  }
  const exact = data.hosts.findIndex((host) => host.toLowerCase() === text);
  if (exact >= 0) return ofNode(exact);
  const nodes = [];
  data.hosts.forEach((host, node) => {
    if (host.toLowerCase().includes(text)) nodes.push(node);
  });
  if (nodes.length === 1) return ofNode(nodes[0]);
  const cells = nodes.flatMap(cellsOfNode);
  return cells.length ? { cells, title: `hosts with “${text}”`, query: text } : null;
}

/** Return the selection that a text means, null if nothing has that name. */
export function find(text) {
  const words = text.trim().toLowerCase();
  if (!words) return null;
  const numbers = /^(?:ranks? *)?([0-9]+)(?: *- *([0-9]+))?$/.exec(words);
  if (numbers) {
    const found = ofRanks(Number(numbers[1]), Number(numbers[2] ?? numbers[1]));
    if (found) return found;
  }
  const pair = /^([a-z_-]+) *(?:group *)?([0-9]+)$/.exec(words);
  const axis = pair && axisNamed(pair[1]);
  if (axis) return ofGroup(axis, Number(pair[2]));
  if (pair && pair[1] === "chip") {
    const cells = [];
    for (let cell = 0; cell < numChips; cell++) if (chips[cell] === Number(pair[2])) cells.push(cell);
    if (cells.length) return { cells, title: `chip ${pair[2]} of every host`, query: words };
  }
  return named(words);
}

/** Return texts that the search field proposes. */
export const proposals = () => [
  ...axes.map((axis) => `${axis.name} 0`),
  ...racks.flatMap((one) => one.labels.slice(0, 40)),
  ...data.hosts.slice(0, 200),
].filter((text) => text.length <= 100);

