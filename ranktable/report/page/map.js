// The picture: an SVG that Python has drawn, or a canvas for many chips.
import { inkOn } from "./colours.js";
import { data, nodeOf, numChips, sizes, starts, states, unpack } from "./data.js";

const picture = data.picture;
const xs = unpack(picture.x);
const ys = unpack(picture.y);
const step = picture.chip + picture.gap;
const BAR = 60; // pixels above that the bar may hide
const MOST_PIXELS = 8192; // of a side of a canvas; browsers refuse a larger one
const MOST_OUTLINED = 64; // small chips beside each other would be hidden by outlines
const box = document.getElementById("map");
const cursor = document.getElementById("cursor");

/** Return the left upper corner of a chip. */
export function cornerOf(cell) {
  const node = nodeOf[cell];
  const at = cell - starts[node];
  const row = Math.floor(at / picture.per_row);
  return [xs[node] + (at % picture.per_row) * step, ys[node] + picture.head + row * step];
}

let zoom = 1;
const corners = new Float32Array(2 * numChips);
for (let cell = 0; cell < numChips; cell++) corners.set(cornerOf(cell), 2 * cell);

/** A picture whose chips are elements. */
function svgPainter(svg) {
  const rects = [...svg.querySelectorAll("rect.chip")];
  const texts = rects.map((rect) => {
    const found = [];
    for (let next = rect.nextElementSibling; next?.matches("text.n"); next = next.nextElementSibling) {
      found.push(next);
    }
    return found;
  });
  rects.forEach((rect, cell) => {
    if (states[cell] === "gone" || states[cell] === "error") rect.classList.add(states[cell]);
  });
  return (colours, on, kin) => {
    box.classList.toggle("picked", on.size > 0);
    rects.forEach((rect, cell) => {
      rect.setAttribute("fill", colours[cell]);
      for (const each of [rect, ...texts[cell]]) {
        each.classList.toggle("on", on.has(cell));
        each.classList.toggle("kin", kin.has(cell));
      }
      for (const text of texts[cell]) text.setAttribute("fill", inkOn(colours[cell]));
    });
  };
}

/** A picture on a canvas, which is drawn again as a whole. */
function canvasPainter(canvas) {
  const least = Math.min(window.devicePixelRatio || 1, 2);
  const most = Math.max(least, MOST_PIXELS / Math.max(picture.width, picture.height));
  let drawnScale = 0;
  canvas.style.width = `${picture.width + 2}px`;
  const pen = canvas.getContext("2d");
  const side = picture.gap ? picture.chip : picture.chip - 0.5;
  const nameOfRack = (rack) => {
    const style = getComputedStyle(document.body);
    pen.strokeStyle = style.getPropertyValue("--line");
    pen.strokeRect(...rack.slice(0, 4));
    pen.fillStyle = style.getPropertyValue("--text");
    pen.font = "600 12px system-ui, sans-serif";
    const room = Math.max(Math.floor((rack[2] - 8) / 6.7), 1);
    const label = rack[4].length > room ? `${rack[4].slice(0, room - 1)}…` : rack[4];
    pen.fillText(label, rack[0] + 6, rack[1] + 16);
  };
  return (colours, on, kin) => {
    const scale = Math.min(least * zoom, most);
    if (drawnScale !== scale) {
      canvas.width = (picture.width + 2) * scale;
      canvas.height = (picture.height + 2) * scale;
      drawnScale = scale;
    }
    pen.setTransform(scale, 0, 0, scale, scale, scale);
    pen.clearRect(-1, -1, picture.width + 2, picture.height + 2);
    pen.globalAlpha = 1;
    picture.racks.forEach(nameOfRack);
    const byColour = new Map();
    for (let cell = 0; cell < numChips; cell++) {
      const alpha = on.size === 0 || on.has(cell) ? 1 : kin.has(cell) ? 0.6 : 0.18;
      const key = `${colours[cell]}${alpha}`;
      if (!byColour.has(key)) byColour.set(key, { colour: colours[cell], alpha, cells: [] });
      byColour.get(key).cells.push(cell);
    }
    for (const { colour, alpha, cells } of byColour.values()) {
      pen.fillStyle = colour;
      pen.globalAlpha = alpha;
      for (const cell of cells) pen.fillRect(corners[2 * cell], corners[2 * cell + 1], side, side);
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = getComputedStyle(document.body).getPropertyValue("--ring");
    pen.lineWidth = 1;
    const isFew = picture.chip >= 8 || on.size <= MOST_OUTLINED;
    for (const cell of isFew ? on : []) {
      pen.strokeRect(corners[2 * cell] - 0.5, corners[2 * cell + 1] - 0.5, side + 1, side + 1);
    }
    pen.fillStyle = pen.strokeStyle;
    for (let cell = 0; cell < numChips; cell++) {
      if (states[cell] === "error") {
        // An error among 100,000 chips is a larger mark than its chip.
        pen.strokeRect(corners[2 * cell] - 2.5, corners[2 * cell + 1] - 2.5, side + 5, side + 5);
      }
    }
  };
}

const drawing = box.querySelector("svg, canvas");
export const paint = picture.is_canvas ? canvasPainter(drawing) : svgPainter(drawing);
if (!picture.is_canvas) {
  drawing.removeAttribute("role");
  drawing.removeAttribute("aria-label");
  drawing.setAttribute("aria-hidden", "true");
}

/** Return the place in the picture of a pointer, and the scale. */
function inPicture(event) {
  const area = drawing.getBoundingClientRect();
  const scale = (picture.width + 2) / area.width;
  return [(event.clientX - area.left) * scale - 1, (event.clientY - area.top) * scale - 1];
}

/** Return what is under a pointer: {cell}, {node}, {rack} or null. */
export function hit(event) {
  const [x, y] = inPicture(event);
  const wide = picture.per_row * step;
  for (let node = 0; node < sizes.length; node++) {
    const left = x - xs[node];
    const top = y - ys[node];
    if (left < 0 || top < 0 || left >= wide) continue;
    const row = Math.floor((top - picture.head) / step);
    if (row >= Math.ceil(sizes[node] / picture.per_row)) continue;
    if (row < 0) return { node };
    const at = row * picture.per_row + Math.floor(left / step);
    if (at < sizes[node]) return { cell: starts[node] + at };
  }
  const inside = ([left, top, width, height]) =>
    x >= left && y >= top && x < left + width && y < top + height;
  const rack = picture.racks.findIndex(inside);
  return rack < 0 ? null : { rack };
}

/** Return the chip nearest to another one in a direction. */
export function nearest(cell, [right, down]) {
  const x = corners[2 * cell];
  const y = corners[2 * cell + 1];
  let best = cell;
  let least = Infinity;
  for (let other = 0; other < numChips; other++) {
    const dx = corners[2 * other] - x;
    const dy = corners[2 * other + 1] - y;
    const along = dx * right + dy * down;
    if (along <= 0) continue;
    const aside = Math.abs(dx * down) + Math.abs(dy * right);
    const distance = along + 4 * aside;
    if (distance < least) [best, least] = [other, distance];
  }
  return best;
}

/** Show where the keyboard is. */
export function showCursor(cell) {
  const area = drawing.getBoundingClientRect();
  const scale = area.width / (picture.width + 2);
  const side = picture.chip * scale + 6;
  const [x, y] = cornerOf(cell);
  Object.assign(cursor.style, {
    left: `${(x + 1) * scale - 3}px`,
    top: `${(y + 1) * scale - 3}px`,
    width: `${side}px`,
    height: `${side}px`,
  });
  cursor.hidden = false;
  cursor.scrollIntoView?.({ block: "nearest" });
}

/** Draw the picture so many times as wide as it fits, with the same middle on the screen. */
export function setZoom(factor) {
  const before = drawing.getBoundingClientRect();
  const share = (part, whole) => Math.min(Math.max(part / whole, 0), 1);
  const x = share(box.scrollLeft + box.clientWidth / 2, before.width);
  const y = share(window.innerHeight / 2 - before.top, before.height);
  zoom = factor;
  box.classList.remove("zoomed");
  box.style.setProperty("--zoomed", `${drawing.getBoundingClientRect().width * factor}px`);
  box.classList.toggle("zoomed", factor > 1);
  const after = drawing.getBoundingClientRect();
  box.scrollLeft = x * after.width - box.clientWidth / 2;
  window.scrollBy(0, after.top + y * after.height - (before.top + y * before.height));
}

/** Scroll to a chip that is not on the screen. */
export function reveal(cell) {
  const area = drawing.getBoundingClientRect();
  const scale = area.width / (picture.width + 2);
  const [x, y] = cornerOf(cell).map((at) => (at + 1) * scale);
  box.scrollLeft = x - box.clientWidth / 2;
  const top = area.top + y;
  const isSeen = top > BAR && top + picture.chip * scale < window.innerHeight;
  if (!isSeen) window.scrollBy(0, top - window.innerHeight / 2);
}

export const hideCursor = () => {
  cursor.hidden = true;
};
