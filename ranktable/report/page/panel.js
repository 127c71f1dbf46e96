// What stands beside and below the picture: selection, traffic, findings, change.
import { inkOn } from "./colours.js";
import {
  axes, axisNamed, before, boundaries, cellOf, cellsOfNode, changes, chips, counted,
  crossing, data, findings, folded, gib, groupOf, members, nodeOf, numChips, placeIn,
  racks, ranks, sizes, starts,
} from "./data.js";

/** Return an element; texts are added as texts, never as markup. */
export function element(tag, properties, ...children) {
  const made = document.createElement(tag);
  Object.assign(made, properties);
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** Return an element of a drawing. */
function shape(tag, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

export const byId = (id) => document.getElementById(id);
const MOST = 8;

/** Show the sizes. */
export function showHeader() {
  const held = sizes.slice(0, data.num_nodes).filter((size) => size > 0);
  const least = held.reduce((one, other) => Math.min(one, other), Infinity);
  const most = held.reduce((one, other) => Math.max(one, other), 0);
  const facts = [
    ["ranks", data.world_size.toLocaleString("en")],
    ["nodes", data.num_nodes.toLocaleString("en")],
    ["chips per node", least === most ? `${most}` : `${least} to ${most}`],
    ...racks.map((one) => [`${one.name}s`, one.labels.length.toLocaleString("en")]),
    ["layout", data.layout && `${data.layout}, order ${data.order}`],
    ["links", data.links && data.links.name],
    ["format", data.format],
    ["digest", data.digest && data.digest.slice(0, 16)],
    ["compared with", data.change && data.change.name],
  ];
  for (const [name, value] of facts) {
    if (!value) continue;
    const shown = element("dd", { className: "cut" }, value);
    if (name === "digest") shown.title = data.digest;
    byId("sizes").append(element("div", {}, element("dt", {}, name), shown));
  }
}

function factsList(pairs) {
  const list = element("dl", { className: "facts" });
  for (const [name, value] of pairs) {
    list.append(element("dt", {}, name), element("dd", {}, `${value}`));
  }
  return list;
}

function table(head, rows) {
  const line = (kind, cells) =>
    element("tr", {}, ...cells.map((cell) => element(kind, kind === "th" ? { scope: "col" } : {}, cell)));
  const made = element(
    "table",
    {},
    element("thead", {}, line("th", head)),
    element("tbody", {}, ...rows.map((row) => line("td", row))),
  );
  return element("div", { className: "wide", tabIndex: 0, role: "region", ariaLabel: head[0] }, made);
}

/** Return the bytes of one group over every boundary, "-" where they are not known. */
function bytesOf(axis, group) {
  const flow = data.flows.find((one) => one.axes === axis.name);
  const nodes = members(axis, group).map((rank) => nodeOf[cellOf.get(rank)]);
  return boundaries.map(({ of }) => (flow ? gib(crossing(flow, nodes.map(of))) : "-"));
}

const spread = (axis, group) =>
  new Set(members(axis, group).map((rank) => nodeOf[cellOf.get(rank)])).size;

/** Return a table of groups: members, nodes, bytes; a click selects one. */
function groupsTable(groups, select) {
  const rows = groups.map(({ axis, group }) => {
    const said = `${axis.name} ${group}`;
    const button = element("button", { type: "button", onclick: () => select(said) }, said);
    const found = members(axis, group);
    return [button, folded(found, 3), `${spread(axis, group)}`, ...bytesOf(axis, group)];
  });
  const head = ["group", "ranks", "nodes", ...boundaries.map(({ name }) => `${name} GiB`)];
  return table(head, rows);
}

function ringDrawing(node) {
  const own = cellsOfNode(node).filter((cell) => changes[cell] !== "gone");
  const order = own.map((cell) => chips[cell]);
  const linked = new Set(data.links.pairs.flatMap(([a, b]) => [`${a},${b}`, `${b},${a}`]));
  const middle = 150;
  const place = (at, far) => {
    const angle = (2 * Math.PI * at) / order.length - Math.PI / 2;
    return [middle + far * Math.cos(angle), middle + far * Math.sin(angle)];
  };
  const at = new Map(order.map((chip, index) => [chip, index]));
  const pairs = order.map((chip, index) => [chip, order[(index + 1) % order.length]]);
  const ring = order.length > 2 ? pairs : pairs.slice(0, order.length - 1);
  const broken = ring.filter(([a, b]) => !linked.has(`${a},${b}`));
  const said = broken.length
    ? `not a ring: no link ${broken.map(([a, b]) => `${a}-${b}`).join(", ")}`
    : `closed ring ${order.join(" ")}`;
  const svg = shape("svg", { class: "links", viewBox: "0 0 300 300", role: "img", "aria-label": said });
  const line = ([a, b], kind) => {
    const [x1, y1] = place(at.get(a), 100);
    const [x2, y2] = place(at.get(b), 100);
    svg.append(shape("line", { x1, y1, x2, y2, class: kind }));
  };
  data.links.pairs.filter(([a, b]) => at.has(a) && at.has(b)).forEach((pair) => line(pair, "link"));
  ring.forEach((pair) => line(pair, broken.includes(pair) ? "broken" : "ring"));
  order.forEach((chip, index) => {
    const [cx, cy] = place(index, 100);
    const [x, y] = place(index, 132);
    const colour = data.picture.palette[index % data.picture.palette.length];
    svg.append(
      shape("circle", { cx, cy, r: 16, fill: colour }),
      shape("text", { x: cx, y: cy, fill: inkOn(colour) }, `${chip}`),
      shape("text", { x, y, class: "outer" }, `r${ranks[own[index]]}`),
    );
  });
  return [element("h3", {}, `Links of the chips, ${data.links.name}`), svg,
    element("p", { className: broken.length ? "code error" : "quiet" }, said)];
}

/** Return what findings say about some chips. */
const findingsOf = (cells) => {
  const wanted = new Set(cells);
  return findings.filter((finding) => finding.cells.some((cell) => wanted.has(cell)));
};

/** Return the ring of a host, nothing if its links are not known. */
function ringOf(node) {
  const isKnown = (cell) => chips[cell] >= 0 && chips[cell] < data.links.num_chips;
  const isDrawn = data.links && sizes[node] > 1 && cellsOfNode(node).every(isKnown);
  return isDrawn ? ringDrawing(node) : [];
}

const items = [...document.querySelectorAll("#findings .finding")];

/** Add a button that shows the chips of a finding to the text that Python has written. */
function withButton(item, finding, select) {
  if (!finding.cells.length) return item;
  item.append(element("button", { type: "button", onclick: () => select(finding) },
    `show ${counted(finding.cells.length, "chip")}`));
  return item;
}

const findingItem = (finding, select) => {
  const item = items[findings.indexOf(finding)].cloneNode(true);
  item.querySelector("button")?.remove();
  return withButton(item, finding, select);
};

const firstHosts = (cells) => {
  const nodes = [...new Set(cells.map((cell) => nodeOf[cell]))];
  const shown = nodes.slice(0, MOST).map((node) => data.hosts[node]);
  const more = nodes.length > MOST ? `, and ${(nodes.length - MOST).toLocaleString("en")} more` : "";
  return [nodes, shown.join(", ") + more];
};

/** Show a selection, or how to make one. */
export function showDetails(selection, select) {
  const panel = byId("details");
  panel.replaceChildren();
  if (!selection) {
    panel.append(element("h2", {}, "Selection"),
      element("p", { className: "quiet" }, "Nothing is selected. Its ranks, groups, links and bytes will be listed here."),
      ...(data.num_nodes === 1 ? ringOf(0) : []));
    return;
  }
  const { cells, title, axis, group } = selection;
  const [nodes, hosts] = firstHosts(cells);
  panel.append(element("h2", { className: "cut" }, title));
  if (cells.length === 1) panel.append(...chipDetails(cells[0], select));
  else {
    const sorted = cells.map((cell) => ranks[cell]);
    panel.append(factsList([
      ["ranks", axis ? folded(sorted) : folded(sorted.sort((a, b) => a - b))],
      ["chips", counted(cells.length, "chip")],
      [nodes.length === 1 ? "host" : `hosts (${nodes.length.toLocaleString("en")})`, hosts],
    ]));
  }
  if (axis) panel.append(element("h3", {}, "Bytes in a step"), groupsTable([{ axis, group }], select));
  if (nodes.length === 1) panel.append(...ringOf(nodes[0]));
  if (!axis && cells.length > 1 && nodes.length === 1 && axes.length) {
    panel.append(...groupsOfNode(cells, select));
  }
  const found = findingsOf(cells);
  if (found.length) {
    panel.append(element("h3", {}, "Findings"), ...found.slice(0, MOST).map((one) => findingItem(one, select)));
  }
}

function chipDetails(cell, select) {
  const node = nodeOf[cell];
  const pairs = [["host", data.hosts[node]], ["chip", chips[cell] < 0 ? "none" : chips[cell]], ["local rank", cell - starts[node]],
    ["node rank", node]];
  for (const one of racks) pairs.push([one.name, one.labels[one.domains[node]]]);
  if (data.addresses?.[cell]) pairs.push(["address", data.addresses[cell]]);
  if (data.change) pairs.push(["change", changes[cell] + (before.has(cell) ? `, was rank ${before.get(cell)}` : "")]);
  const isThere = changes[cell] !== "gone" && axes.length > 0;
  for (const axis of isThere ? axes : []) pairs.push([axis.name, placeIn(axis, ranks[cell])]);
  const groups = isThere ? axes.map((axis) => ({ axis, group: groupOf(axis, ranks[cell]) })) : [];
  return [factsList(pairs), ...(groups.length
    ? [element("h3", {}, "Groups and their bytes in a step"), groupsTable(groups, select)] : [])];
}

function groupsOfNode(cells, select) {
  const seen = new Map();
  for (const axis of axes) {
    for (const cell of cells) {
      if (changes[cell] === "gone") continue;
      const group = groupOf(axis, ranks[cell]);
      seen.set(`${axis.name} ${group}`, { axis, group });
    }
  }
  const leaving = [...seen.values()].filter(({ axis, group }) => spread(axis, group) > 1);
  const inside = seen.size - leaving.length;
  const text = `${counted(inside, "group")} inside this host, ${leaving.length} leave it`;
  const shown = leaving.slice(0, 2 * MOST);
  return [element("h3", {}, "Groups"), element("p", { className: "quiet" }, text),
    shown.length ? groupsTable(shown, select) : element("span", {})];
}

function meter(value, most) {
  const bar = element("span", { className: "meter", ariaHidden: "true" }, element("span", {}));
  bar.firstChild.style.width = `${most ? (100 * value) / most : 0}%`;
  return bar;
}

/** Show what all groups send, and the lower bound. */
export function showTraffic(select) {
  if (!data.traffic.length) return;
  const most = Math.max(...data.traffic.flatMap((row) => row.at.map((one) => one.bytes ?? 0)));
  const rows = data.traffic.map((row) => {
    const axis = axisNamed(row.axes);
    const name = axis
      ? element("button", { type: "button", onclick: () => select(`${row.axes} 0`) }, row.axes) : row.axes;
    const at = row.at.flatMap((one) => {
      const sent = element("span", {}, one.bytes === null ? "-" : gib(one.bytes), meter(one.bytes ?? 0, most));
      return [`${one.inside}/${row.groups}`, sent];
    });
    return [name, row.groups.toLocaleString("en"), row.size.toLocaleString("en"), ...at];
  });
  const total = (name, key) => [name, "", "", ...data.totals.flatMap((one) =>
    ["", element("span", {}, gib(one[key]), meter(one[key], Math.max(most, one.bytes)))])];
  const shown = data.flows.length ? [total("total", "bytes"), total("lower bound", "bound")] : [];
  const names = data.totals.flatMap(({ boundary }) => [`inside ${boundary}`, `over ${boundary}s, GiB a step`]);
  const panel = byId("traffic");
  panel.append(table(["axis", "groups", "size", ...names], [...rows, ...shown]));
  if (data.is_typical) {
    panel.append(element("p", { className: "quiet" },
      "These are typical bytes of a step; ranktable report --bytes tp=16GiB,dp=2GiB takes yours."));
  }
  panel.hidden = false;
}

/** List the findings and what has changed. */
export function showLists(select) {
  items.forEach((item, at) => withButton(item, findings[at], select));
  if (!data.change) return;
  const change = byId("change");
  change.hidden = false;
  change.append(element("p", { className: "quiet" }, `since ${data.change.name}`));
  const kinds = ["moved", "new", "gone"].filter((kind) => changes.includes(kind));
  for (const kind of kinds) {
    const cells = [];
    for (let cell = 0; cell < numChips; cell++) if (changes[cell] === kind) cells.push(cell);
    const show = () => select({ cells, title: `${counted(cells.length, "chip")} ${kind}` });
    change.append(element("button", { type: "button", onclick: show }, `${kind} ${cells.length}`), " ");
  }
  change.append(element("ul", {}, ...data.change.lines.map((line) => element("li", {}, line))));
}
