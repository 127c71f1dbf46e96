// Colours of the chips: by a coordinate, by what changed, or by what was found.
import { axes, changes, data, local, numChips, placeIn, range, ranks, sizes, states } from "./data.js";

const { palette, ramp, states: stateColours } = data.picture;

/** Return the colour of one of several values. */
export function mixed(value, count) {
  if (count <= palette.length) return palette[value];
  const at = (value / (count - 1)) * (ramp.length - 1);
  const first = Math.min(Math.floor(at), ramp.length - 2);
  const channel = (colour, place) => parseInt(colour.slice(place, place + 2), 16);
  const parts = [1, 3, 5].map((place) => {
    const start = channel(ramp[first], place);
    return Math.round(start + (channel(ramp[first + 1], place) - start) * (at - first));
  });
  return `#${parts.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

/** Return the colour of text on a colour. */
export function inkOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return 299 * red + 587 * green + 114 * blue > 120000 ? "#111" : "#fff";
}

const byNumber = (name, count, valueOf) => ({
  name,
  count,
  colour: (cell) => {
    const value = valueOf(cell);
    return value === null ? stateColours.gone : mixed(value, count);
  },
});

const byState = (name, values, kinds) => ({
  name,
  kinds: kinds.filter((kind) => values.includes(kind)),
  colour: (cell) => stateColours[values[cell]],
  number: (kind) => values.filter((one) => one === kind).length,
});

/** The ways to colour the chips. */
export const modes = [
  byNumber("local rank", sizes.reduce((most, size) => Math.max(most, size), 1), local),
  ...axes
    .filter((axis) => axis.size > 1)
    .map((axis) =>
      byNumber(axis.name, axis.size, (cell) =>
        changes[cell] === "gone" ? null : placeIn(axis, ranks[cell]),
      ),
    ),
];
if (data.change) modes.unshift(byState("change", changes, ["same", "moved", "new", "gone"]));
if (data.findings.length) {
  const status = byState("status", states, ["sound", "note", "warning", "error", "gone"]);
  modes.unshift(status);
}
/** The way that says most, as Python has chosen it. */
export const firstMode = modes.find((one) => one.name === data.colour);

/** Return the colour of every chip. */
export const coloursOf = (mode) => range(0, numChips).map(mode.colour);

/** Return the entries of a legend: a text, and its colour or colours. */
export function legendOf(mode) {
  const isHidden = states.includes("error") && mode.name !== "status";
  return [...valuesOf(mode), ...(isHidden ? [{ text: "error", kind: "framed" }] : [])];
}

function valuesOf(mode) {
  if (mode.kinds) {
    return mode.kinds.map((kind) => ({
      text: `${kind} ${mode.number(kind).toLocaleString("en")}`,
      colour: stateColours[kind],
    }));
  }
  if (mode.count > palette.length) {
    const text = `${mode.name} 0 to ${mode.count - 1}`;
    return [{ text, colour: `linear-gradient(90deg, ${ramp.join(", ")})`, kind: "ramp" }];
  }
  return range(0, mode.count).map((value) => ({
    text: `${value === 0 ? `${mode.name} ` : ""}${value}`,
    colour: mixed(value, mode.count),
  }));
}
