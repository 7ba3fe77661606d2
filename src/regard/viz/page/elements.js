// Elements, texts in two languages, and colours, for all parts of the page.

const DATA = JSON.parse(document.getElementById("data").textContent);
const WORDS = JSON.parse(document.getElementById("words").textContent);
const SVG = document.querySelector("svg").namespaceURI;
const DARK = window.matchMedia("(prefers-color-scheme: dark)");
const page = { language: "en" };

// The words for a key in the page's language; {name} is replaced by values.name.
function say(key, values = {}) {
  return WORDS[page.language][key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

// True if the page has its own text for a name.
function has(prefix, name) {
  return Object.hasOwn(WORDS[page.language], prefix + name);
}

// A name in the data: the usual ones in the language of the page, all others unchanged.
function called(name, prefix = "name_") {
  return has(prefix, name) ? say(prefix + name) : name;
}

// An element: attributes starting with "on" are listeners, null and false are left off, children are nodes, text, or a
// text in both languages, { en, zh }.
function make(tag, attributes = {}, ...children) {
  return dress(document.createElement(tag), attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return dress(document.createElementNS(SVG, tag), attributes, children);
}

function dress(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null).map((child) => child[page.language] ?? child));
  return element;
}

// A row of buttons of which one is pressed.
function choice(label, options, current, choose) {
  const buttons = options.map(([value, name]) =>
    make("button", { type: "button", "aria-pressed": String(value === current), onclick: () => choose(value) }, name));
  return make("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

// Redraw a part; the control with the keyboard focus keeps it.
function refill(parent, ...children) {
  const controls = () => [...parent.querySelectorAll("button, input, select, textarea, [tabindex]")];
  const place = controls().indexOf(document.activeElement);
  parent.replaceChildren(...children.filter((child) => child !== null));
  if (place >= 0 && controls()[place]) controls()[place].focus({ preventScroll: true });
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

function digits(value) {
  if (value === null) return say("no_number");
  const size = Math.abs(value);
  if (value !== 0 && (size < 0.001 || size >= 1e6)) return Number(value.toPrecision(3)).toExponential().replace("e+", "e");
  return String(Number(value.toPrecision(4)));
}

function weight(value) {
  return value.toFixed(2);
}

// A token as a label: spaces are made visible, long ones end in ….
function label(token, limit = 16) {
  const shown = [...(token === "" ? "∅" : token.replace(/\s/gu, "␣"))];
  return shown.length > limit ? shown.slice(0, limit - 1).join("") + "…" : shown.join("");
}

const RAMPS = {
  light: [[244, 244, 239], [190, 221, 217], [94, 170, 176], [24, 104, 131], [8, 42, 74]],
  dark: [[27, 33, 42], [27, 76, 96], [35, 132, 144], [110, 198, 160], [250, 236, 150]],
};

// True if the page is dark now: as its own switch says, else as the system.
function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : DARK.matches;
}

// Show a theme: "light", "dark", or "auto", as the system.
function showTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  for (const button of document.querySelectorAll("#themes button")) {
    button.setAttribute("aria-pressed", String(button.dataset.theme === theme));
  }
}

// What this browser remembers of the choices of a person; nothing if it keeps nothing for a page in a file.
function remembered(name) {
  try {
    return window.localStorage.getItem(`regard-${name}`) || "";
  } catch {
    return "";
  }
}

function remember(name, value) {
  try {
    window.localStorage.setItem(`regard-${name}`, value);
  } catch {
    // the choice lasts as long as the page
  }
}

// The colour of a weight between 0 and 1 as [red, green, blue]: evenly darker (or, in the dark, brighter).
function heat(value) {
  const ramp = isDark() ? RAMPS.dark : RAMPS.light;
  const place = clamp(value, 0, 1) * (ramp.length - 1);
  const left = Math.min(Math.floor(place), ramp.length - 2);
  return ramp[left].map((from, n) => Math.round(from + (ramp[left + 1][n] - from) * (place - left)));
}
