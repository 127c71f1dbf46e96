// The state of the page: how it is coloured and what is selected.
import { coloursOf, firstMode, legendOf, modes } from "./colours.js";
import {
  axes, cellOf, cellsOfNode, changes, counted, data, describe, groupOf, members, nodeOf,
  numChips, racks, range, ranks, sizes,
} from "./data.js";
import { hideCursor, hit, nearest, paint, reveal, setZoom, showCursor } from "./map.js";
import { byId, element, showDetails, showHeader, showLists, showTraffic } from "./panel.js";
import { find, ofCell, ofGroup, ofNode, ofRack, proposals } from "./search.js";

const map = byId("map");
const tip = byId("tip");
const query = byId("query");
const MOST_KIN = 20000;
const ZOOMS = [1, 1.5, 2, 3, 4, 6, 8];

let mode = firstMode;
let colours = coloursOf(mode);
let selection = null;
let at = 0; // the chip that the keyboard is on
let nextAxis = 0;
let zoomLevel = 0;

/** Return the chips that share a group with a selected chip. */
function kinOf(cells) {
  const found = new Set();
  if (cells.length !== 1 || changes[cells[0]] === "gone") return found;
  for (const axis of axes) {
    if (axis.size > MOST_KIN) continue;
    for (const rank of members(axis, groupOf(axis, ranks[cells[0]]))) found.add(cellOf.get(rank));
  }
  return found;
}

function repaint() {
  const cells = selection ? selection.cells : [];
  paint(colours, new Set(cells), kinOf(cells));
}

/** Select a text, a finding or a selection; null selects nothing. */
function select(wanted) {
  selection = typeof wanted === "string" ? find(wanted) : wanted;
  if (selection && !selection.title) {
    selection = { cells: wanted.cells, title: `${wanted.code}: ${counted(wanted.cells.length, "chip")}` };
  }
  byId("clear").hidden = !selection;
  showDetails(selection, select);
  repaint();
  const said = selection ? `${selection.title}: ${counted(selection.cells.length, "chip")}` : "";
  byId("said").textContent = said;
  if (selection) at = selection.cells[0];
  const hash = selection?.query ? `#${encodeURIComponent(selection.query)}` : " ";
  try {
    history.replaceState(null, "", hash === " " ? location.pathname : hash);
  } catch {
    // A page inside a frame may have no history of its own.
  }
}

/** Select what may be far away in the picture, and show it. */
function go(wanted) {
  select(wanted);
  if (selection) reveal(selection.cells[0]);
}

function showMode(wanted) {
  mode = wanted;
  colours = coloursOf(mode);
  const items = legendOf(mode).map(({ text, colour, kind }) => {
    const swatch = element("span", { className: `swatch ${kind ?? ""}` });
    swatch.style.background = colour ?? "none";
    return element("li", {}, swatch, text);
  });
  byId("legend").replaceChildren(...items);
  repaint();
}

function addModes() {
  modes.forEach((one) => {
    const input = element("input", {
      type: "radio", name: "mode", checked: one === firstMode, onchange: () => showMode(one),
    });
    byId("modes").append(element("label", {}, input, one.name));
  });
}

/** Draw the picture larger or smaller; a selected chip stays on the screen. */
function showZoom(wanted) {
  zoomLevel = Math.min(Math.max(wanted, 0), ZOOMS.length - 1);
  byId("smaller").disabled = zoomLevel === 0;
  byId("larger").disabled = zoomLevel === ZOOMS.length - 1;
  hideCursor();
  setZoom(ZOOMS[zoomLevel]);
  repaint();
  if (selection) reveal(selection.cells[0]);
  byId("said").textContent = `zoom ${100 * ZOOMS[zoomLevel]}%`;
}

byId("smaller").addEventListener("click", () => showZoom(zoomLevel - 1));
byId("larger").addEventListener("click", () => showZoom(zoomLevel + 1));

const selectionAt = (found) => {
  if (!found) return null;
  if ("cell" in found) return ofCell(found.cell);
  return "node" in found ? ofNode(found.node) : ofRack(0, domainOfBox(found.rack));
};

/** Return the domain that a box of the picture shows: that of its first node. */
const boxDomains = racks.length ? [...new Set(racks[0].domains)] : [];
const domainOfBox = (box) => boxDomains[box];

function tipText(found) {
  if ("cell" in found) return describe(found.cell);
  if ("node" in found) return `${data.hosts[found.node]} · ${counted(cellsOfNode(found.node).length, "chip")}`;
  const rack = ofRack(0, domainOfBox(found.rack));
  return `${rack.title} · ${counted(rack.cells.length, "chip")}`;
}

map.addEventListener("pointermove", (event) => {
  const found = hit(event);
  tip.hidden = !found;
  if (!found) return;
  tip.textContent = tipText(found).slice(0, 300);
  const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
  tip.style.left = `${Math.max(left, 4)}px`;
  tip.style.top = `${Math.min(event.clientY + 16, window.innerHeight - tip.offsetHeight - 8)}px`;
});
const overview = document.querySelector("#overview div");
overview?.addEventListener("click", ({ target }) => {
  const index = [...overview.children].indexOf(target);
  const count = Number(overview.dataset.nodes);
  if (index < 0) return;
  if (count === 0) go(ofRack(0, domainOfBox(index)));
  else if (count === 1) go(ofNode(index));
  else go({ cells: range(index * count, Math.min((index + 1) * count, sizes.length)).flatMap(cellsOfNode), title: target.title });
});

map.addEventListener("pointerleave", () => {
  tip.hidden = true;
});
map.addEventListener("click", (event) => {
  hideCursor();
  select(selectionAt(hit(event)));
});

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Go to the next group of the chip that the keyboard is on. */
function showNextGroup() {
  if (!axes.length || changes[at] === "gone") return;
  const here = at;
  const axis = axes[nextAxis % axes.length];
  nextAxis += 1;
  select(ofGroup(axis, groupOf(axis, ranks[here])));
  at = here;
}

map.addEventListener("keydown", (event) => {
  if (event.key in ARROWS) {
    at = nearest(at, ARROWS[event.key]);
    showCursor(at);
    byId("said").textContent = describe(at);
  } else if (event.key === "Enter" || event.key === " ") {
    select(event.shiftKey ? ofNode(nodeOf[at]) : ofCell(at));
  } else if (event.key === "g") {
    showNextGroup();
  } else {
    return;
  }
  event.preventDefault();
});
map.addEventListener("focus", () => {
  if (map.matches(":focus-visible")) showCursor(at);
});
map.addEventListener("blur", hideCursor);

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    query.value = "";
    byId("found").textContent = "";
    select(null);
  } else if (document.activeElement === query || event.ctrlKey || event.metaKey || event.altKey) {
    return;
  } else if (event.key === "/") {
    query.focus();
    event.preventDefault();
  } else if (event.key === "+" || event.key === "=") {
    showZoom(zoomLevel + 1);
  } else if (event.key === "-") {
    showZoom(zoomLevel - 1);
  } else if (event.key === "0") {
    showZoom(0);
  }
});

function search() {
  const found = find(query.value);
  byId("found").textContent = found
    ? counted(found.cells.length, "chip")
    : query.value.trim() ? "nothing has this name" : "";
  select(found);
}

query.addEventListener("input", search);
byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  search();
  if (selection) showCursor(selection.cells[0]);
});
byId("clear").addEventListener("click", () => {
  query.value = "";
  byId("found").textContent = "";
  select(null);
});

map.setAttribute("aria-label", `${data.name}: ${counted(data.num_nodes, "node")}, ${counted(numChips, "chip")}`);
byId("names").append(...proposals().map((value) => element("option", { value })));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
showHeader();
addModes();
showMode(mode);
showLists(go);
showTraffic(select);
function followHash() {
  let linked = "";
  try {
    linked = decodeURIComponent(location.hash.slice(1));
  } catch {
    // Not a text that this page has written.
  }
  go(linked || null);
}
window.addEventListener("hashchange", followHash);
followHash();
performance.mark("drawn");
