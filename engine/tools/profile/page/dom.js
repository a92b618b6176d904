// What every page of profiles is made with: elements, figures for people, the theme.
"use strict";

// Makes an element; children are elements or texts, which stay texts whatever they hold.
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(3)) {
    if (child !== undefined && child !== null) element.append(child);
  }
  return element;
}

function fill(element, ...children) {
  element.replaceChildren(...children.flat(3).filter((child) => child !== undefined && child !== null));
  return element;
}

const byId = (id) => document.getElementById(id);

const kSizes = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

// The unit in which a size in bytes is written.
function sizeUnit(bytes) {
  let power = 0;
  while (power + 1 < kSizes.length && Math.abs(bytes) >= 1024 ** (power + 1)) ++power;
  return { name: kSizes[power], bytes: 1024 ** power };
}

// Three digits that count, as in 69.7, 4.02 and 124.
function threeDigits(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  return value.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0);
}

function sizeText(bytes) {
  const unit = sizeUnit(bytes);
  return (unit.bytes === 1 ? String(bytes) : threeDigits(bytes / unit.bytes)) + " " + unit.name;
}

function timeUnit(seconds) {
  const size = Math.abs(seconds);
  if (size >= 1 || size === 0) return { name: "s", seconds: 1 };
  if (size >= 1e-3) return { name: "ms", seconds: 1e-3 };
  if (size >= 1e-6) return { name: "µs", seconds: 1e-6 };
  return { name: "ns", seconds: 1e-9 };
}

function timeText(seconds) {
  const unit = timeUnit(seconds);
  return threeDigits(seconds / unit.seconds) + " " + unit.name;
}

const shareText = (part, whole) => (whole > 0 ? ((100 * part) / whole).toFixed(part / whole < 0.0995 ? 1 : 0) + " %" : "");

// A figure as people read it, with the exact number for programs.
function figure(value, text, id) {
  return make("data", { value: String(value), "data-figure": id }, text(value));
}

const wordsOf = (name) => name.replaceAll("_", " ");

function swatch(name) {
  return make("span", { class: "swatch", style: "background: var(--" + name + ")", "aria-hidden": "true" });
}

// A table in a box that scrolls by itself if it is too wide; cells that are numbers stand on the right.
function table(caption, heads, rows, className) {
  const isFigure = (cell) => cell instanceof Element && cell.tagName === "DATA";
  const head = make("tr", {}, heads.map((text, c) => make("th", { scope: "col", class: rows.length > 0 && isFigure(rows[0][c]) ? "figure" : null }, text)));
  const body = rows.map((cells) => make("tr", {}, cells.map((cell, c) => {
    return c === 0 ? make("th", { scope: "row" }, cell) : make("td", { class: isFigure(cell) ? "figure" : null }, cell);
  })));
  return make("div", { class: "scroll " + (className || ""), tabindex: "0", role: "region", "aria-label": caption },
    make("table", {}, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, body)));
}

// Parts of a whole as one bar; what stands in the table beside it needs no second reading.
function partsBar(parts, whole) {
  return make("span", { class: "parts", "aria-hidden": "true" }, parts.filter((part) => part.value > 0).map((part) =>
    make("span", { class: part.class, title: part.title, style: "width:" + (100 * part.value) / whole + "%;" + (part.colour ? "background:" + part.colour : "") })));
}

// The choice between a few values. One of them is set.
function segments(fieldset, name, values, chosen, onChoice) {
  for (const [value, text] of values) {
    const input = make("input", { type: "radio", name, value, id: name + "-" + value, checked: value === chosen });
    input.addEventListener("change", () => onChoice(value));
    fieldset.append(input, make("label", { for: input.id }, text));
  }
}

const isDark = () => document.documentElement.dataset.theme === "dark" ||
  (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);

// The button of the theme; `onChange` draws again what is no style's.
function followTheme(onChange) {
  const button = byId("theme");
  const show = () => {
    button.setAttribute("aria-pressed", String(isDark()));
    onChange();
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  button.setAttribute("aria-pressed", String(isDark()));
}

const pageData = () => JSON.parse(byId("data").textContent);
