// A text of an example: plain, with marked spans, shaded by token, preformatted, a picture, or names with probabilities.

const LEAST = 0.7; // of the size of a picture, so that its words stay readable
const ANSWERS = ["reference", "output"]; // kinds of spans without a label
const kinds = []; // all kinds of marked spans, in the order in which they are first drawn: each has its own colour

// The text without its marks, to search and to sort by.
function plain(value) {
  if (typeof value === "string") return value;
  if (value.names) return value.names.join(" ");
  if (value.tokens) return value.tokens.join(" ");
  return value.text ?? value.preformatted;
}

// The nodes of a text; spans that `other` does not have are marked as different.
function nodesOf(value, other) {
  if (value.names) return [shareBars(value)];
  if (value.tokens) return [shadedTokens(value)];
  if (value.picture !== undefined) return [picture(value)];
  if (value.preformatted !== undefined) return [make("pre", { class: "drawing" }, value.preformatted || say("empty"))];
  if (value.spans) return markedText(value, other && other.spans && sameKinds(value, other) ? other.spans : null);
  return typeof other === "string" ? compared(other, value) : [value === "" && other !== null ? empty() : value];
}

// True if the spans of two texts can be compared; those of a right and of a predicted answer have different kinds.
function sameKinds(value, other) {
  return ![...value.spans, ...other.spans].some((span) => ANSWERS.includes(span[2]));
}

function empty() {
  return make("span", { class: "soft" }, say("empty"));
}

function markedText({ text, spans }, others) {
  const characters = [...text]; // Python counts code points
  const parts = [];
  let place = 0;
  for (const [start, end, kind] of spans) {
    if (!kinds.includes(kind)) kinds.push(kind);
    const found = !others || others.some((span) => span[0] === start && span[1] === end && span[2] === kind);
    parts.push(characters.slice(place, start).join(""), make("span", { dir: "auto",
      class: `span line-${kinds.indexOf(kind) % 6}${found ? "" : " differs"}` }, characters.slice(start, end).join(""),
    ANSWERS.includes(kind) ? null : make("small", {}, kind)));
    place = end;
  }
  return [...parts, characters.slice(place).join("")];
}

function shadedTokens({ tokens, values, full, unit }) {
  return make("span", { class: "shaded" }, tokens.map((token, n) => {
    const colour = heat(clamp(values[n] / full, 0, 1));
    const box = make("span", { class: "token", title: `${token}: ${values[n].toFixed(2)} ${called(unit)}` },
      token.replace(/\s/gu, "␣"));
    box.style.background = `rgb(${colour.join(" ")})`;
    box.style.color = luminance(colour) > 0.36 ? "#10161d" : "#ffffff";
    return box;
  }));
}

function shareBars({ names, shares }) {
  if (!names.length) return empty();
  return make("span", { class: "shares" }, names.map((name, n) => {
    const bar = make("span", { class: n ? "share" : "share first" }, make("bdi", {}, name),
      make("span", { class: "figure" }, `${Math.round(100 * shares[n])} %`));
    bar.style.setProperty("--share", `${100 * shares[n]}%`);
    return bar;
  }));
}

// A picture that Python has drawn, in the colours of the page. Its own style sheet is not used.
function picture({ picture: svg, text }) {
  const plainSvg = svg.replace(/<style>[^]*?<\/style>/u, "");
  const drawn = new DOMParser().parseFromString(plainSvg, "image/svg+xml").documentElement;
  drawn.querySelector(".ground")?.remove();
  drawn.setAttribute("aria-label", text);
  drawn.style.minWidth = `${LEAST * Number(drawn.getAttribute("width"))}px`; // smaller than this it scrolls
  return make("div", { class: "scroll picture" }, document.importNode(drawn, true));
}
