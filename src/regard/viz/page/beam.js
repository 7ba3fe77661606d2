// The beam as a tree: a column for each step, the best candidates at the top, lines from each token to its continuations.

const beam = { pruned: true, node: null };
const BOX = { width: 100, height: 30, across: 134, down: 38, name: 52 };
const [STEP, PARENT, TOKEN, LOG_PROB, TOTAL, SCORE, OUTCOME] = [0, 1, 2, 3, 4, 5, 6];

function drawBeam(parent, tree, controls = null) {
  const reading = make("p", { class: "reading", "aria-live": "polite" });
  const toggle = make("input", { type: "checkbox", onchange: (event) => {
    beam.pruned = event.target.checked;
    drawBeam(parent, tree, controls);
  } });
  toggle.checked = beam.pruned;
  const picture = beamPicture(tree, reading);
  refill(parent, make("p", { class: "about" }, say("beam_about", { width: tree.width })),
    make("div", { class: "controls" }, controls, make("label", { class: "tick-box" }, toggle, say("show_pruned")),
      saveButtons("beam", "", () => [picture])),
    beamLegend(), reading, make("div", { class: "scroll" }, picture));
}

function beamLegend() {
  return make("p", { class: "legend" }, ["best", "finished", "continued", "pruned"].map((outcome) =>
    make("span", { class: `outcome ${outcome}` }, say(`outcome_${outcome}`))));
}

function beamPicture(tree, reading) {
  const shown = tree.nodes.map((node, n) => ({ node, n })).filter(({ node }) => beam.pruned || node[OUTCOME] !== "pruned");
  const places = new Map();
  const counts = [];
  for (const { node, n } of shown) {
    counts[node[STEP]] = (counts[node[STEP]] || 0) + 1;
    places.set(n, { x: 12 + BOX.across * (node[STEP] + 1), y: 8 + BOX.down * (counts[node[STEP]] - 1) });
  }
  const best = new Set(tree.leaves.length && tree.leaves[0] !== null ? pathTo(tree, tree.leaves[0]) : []);
  const origin = { x: 12, y: 8 };
  const lines = shown.map(({ node, n }) => {
    const from = node[PARENT] === null ? origin : places.get(node[PARENT]);
    const to = places.get(n);
    const [x, y, u, v] = [from.x + BOX.width, from.y + BOX.height / 2, to.x, to.y + BOX.height / 2];
    return draw("path", { class: `branch ${outcomeOf(node, best.has(n))}`, "data-node": n, d: `M${x} ${y} C${x + 22} ${y} ${u - 22} ${v} ${u} ${v}`,
      "stroke-width": (1 + 4 * Math.exp(node[LOG_PROB])).toFixed(2) });
  });
  const boxes = shown.map(({ node, n }) => nodeBox(tree, node, n, places.get(n), best.has(n)));
  const width = 24 + BOX.across * (counts.length + 1);
  const height = 16 + BOX.down * Math.max(1, ...counts);
  const start = draw("g", { class: "node start" }, draw("rect", { ...origin, width: BOX.width, height: BOX.height, rx: 8 }),
    draw("text", { x: origin.x + BOX.width / 2, y: origin.y + 20, "text-anchor": "middle" }, say("start")));
  const picture = draw("svg", { width, height, class: "beam", role: "group", tabindex: 0, "aria-label": say("beam_label", { nodes: shown.length }) },
    lines, start, boxes);
  const point = (n) => pointAt(tree, picture, reading, n);
  boxes.forEach((box, place) => box.addEventListener("pointerenter", () => point(shown[place].n)));
  picture.addEventListener("keydown", (event) => {
    const to = beamKey(event.key, tree, shown, best);
    if (to === undefined) return;
    event.preventDefault();
    point(to);
    picture.querySelector(`g[data-node="${to}"]`)?.scrollIntoView({ block: "nearest", inline: "center" });
  });
  point(beam.node !== null && places.has(beam.node) ? beam.node : tree.leaves[0] ?? null);
  return picture;
}

function outcomeOf(node, isBest) {
  return isBest ? "best" : node[OUTCOME] === "stopped" || node[OUTCOME] === "truncated" ? "continued" : node[OUTCOME];
}

function pathTo(tree, n) {
  const path = [];
  for (let place = n; place !== null; place = tree.nodes[place][PARENT]) path.unshift(place);
  return path;
}

function nodeBox(tree, node, n, place, isBest) {
  const rank = tree.leaves.indexOf(n);
  let limit = 12;
  while (limit > 2 && textWidth(label(node[TOKEN], limit)) > BOX.name) limit -= 1; // the number has its own room
  const name = label(node[TOKEN], limit);
  return draw("g", { class: `node ${outcomeOf(node, isBest)}`, "data-node": n },
    draw("rect", { ...place, width: BOX.width, height: BOX.height, rx: 8 }),
    draw("text", { x: place.x + 8, y: place.y + 20 }, name),
    draw("text", { class: "small", x: place.x + BOX.width - 7, y: place.y + 20, "text-anchor": "end" }, written(node[TOTAL], 1)),
    rank < 0 ? null : draw("circle", { class: "rank", cx: place.x + BOX.width, cy: place.y, r: 8 }),
    rank < 0 ? null : draw("text", { class: "rank-name", x: place.x + BOX.width, y: place.y + 3.5, "text-anchor": "middle" }, String(rank + 1)),
    draw("title", {}, `${node[TOKEN]}: ${say(`outcome_${node[OUTCOME]}`)}`));
}

// Show the path to a node and its numbers.
function pointAt(tree, picture, reading, n) {
  beam.node = n;
  const path = new Set(n === null ? [] : pathTo(tree, n));
  for (const part of picture.querySelectorAll("[data-node]")) {
    part.classList.toggle("on-path", path.has(Number(part.dataset.node)));
    part.classList.toggle("pointed", Number(part.dataset.node) === n);
  }
  if (n === null) return reading.replaceChildren(make("span", { class: "soft" }, say("beam_hint")));
  const node = tree.nodes[n];
  const tokens = [...path].map((place) => tree.nodes[place][TOKEN]);
  const text = tokens.join(tokens.some((token) => token.includes("␣")) ? "" : " ").replaceAll("␣", " ").trim();
  return reading.replaceChildren(make("bdi", { class: "who" }, label(text, 60).replaceAll("␣", " ")),
    make("span", {}, `log P(${label(node[TOKEN])}) = ${written(node[LOG_PROB], 2)}`),
    make("span", {}, `P = ${(100 * Math.exp(node[LOG_PROB])).toFixed(1)} %`),
    make("span", {}, `log P = ${written(node[TOTAL], 2)}`), make("span", {}, `${say("output_score")} ${written(node[SCORE], 2)}`),
    make("span", { class: `outcome ${outcomeOf(node, false)}` }, say(`outcome_${node[OUTCOME]}`)));
}

// The node that an arrow key leads to: left to the parent, right to the best continuation, up and down in the column.
function beamKey(key, tree, shown, best) {
  const now = beam.node;
  if (now === null) return key.startsWith("Arrow") ? shown[0]?.n : undefined;
  const column = shown.filter(({ node }) => node[STEP] === tree.nodes[now][STEP]).map(({ n }) => n);
  const place = column.indexOf(now);
  if (key === "ArrowUp") return column[Math.max(0, place - 1)];
  if (key === "ArrowDown") return column[Math.min(column.length - 1, place + 1)];
  if (key === "ArrowLeft") return tree.nodes[now][PARENT] ?? now;
  if (key !== "ArrowRight") return undefined;
  const next = shown.filter(({ node }) => node[PARENT] === now).map(({ n }) => n);
  return next.find((n) => best.has(n)) ?? next[0] ?? now;
}
