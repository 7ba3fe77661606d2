// Curves of the losses, the monitored metric and the learning rate as SVG, with the values at the pointer; and the scores.

const PLOT = { width: 720, left: 56, right: 26, top: 12 };

function drawLearning(parent) {
  const parts = [];
  if (DATA.curves.length || DATA.monitor || DATA.rate.length) {
    parts.push(make("section", { class: "card" }, make("h2", {}, say("curves")),
      make("p", { class: "about" }, say("curves_about")), make("div", { class: "curves" })));
  }
  if (DATA.scores.length) parts.push(scores());
  parent.className = parts.length > 1 ? "pair" : "";
  refill(parent, ...parts);
  drawCurves();
}

// The curves, as wide as their parent, so that their numbers stay readable on a phone.
function drawCurves() {
  for (const room of document.querySelectorAll(".curves")) {
    PLOT.width = clamp(room.clientWidth, 280, 1200);
    refill(room, ...plot());
  }
}

function scores() {
  const rows = DATA.scores.map(([name, value, signature]) => make("tr", {},
    make("th", { scope: "row" }, called(name)), make("td", { class: "number" }, digits(value)),
    make("td", { class: "signature" }, signature)));
  const heads = ["score", "value", "signature"].map((key) => make("th", { scope: "col" }, say(key)));
  return make("section", { class: "card scores" }, make("h2", {}, say("scores")),
    make("table", {}, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, rows)));
}

function plot() {
  const monitored = DATA.monitor ? DATA.monitor.points : [];
  const all = [...DATA.curves.map((curve) => curve.points), monitored, DATA.rate].flat().filter((point) => point[0] !== null);
  const steps = all.map((point) => point[0]);
  const span = [Math.min(...steps), Math.max(...steps)];
  const across = (step) => PLOT.left + (span[1] > span[0] ? (step - span[0]) / (span[1] - span[0]) : 0.5)
    * (PLOT.width - PLOT.left - PLOT.right);
  const panels = [];
  let bottom = PLOT.top;
  if (DATA.curves.length) {
    panels.push(panel(DATA.curves, bottom, 230, across, 5));
    bottom += 230;
  }
  if (DATA.monitor) {
    bottom += panels.length ? 36 : 8;
    panels.push(panel([{ ...DATA.monitor, monitored: true }], bottom, 110, across, 3));
    bottom += 110;
  }
  if (DATA.rate.length) {
    bottom += panels.length ? 36 : 8;
    panels.push(panel([{ name: say("rate"), points: DATA.rate, rate: true }], bottom, 60, across, 2));
    bottom += 60;
  }
  const picture = draw("svg", { viewBox: `0 0 ${PLOT.width} ${bottom + 34}`, class: "plot", role: "img", tabindex: 0,
    "aria-label": `${say("curves")}: ${curveNames().join(", ")}` });
  picture.append(...panels.map((each) => each.picture), stepAxis(span, across, bottom));
  const reading = make("p", { class: "reading", "aria-live": "polite" });
  readOff(picture, reading, panels.flatMap((each) => each.marks), across, bottom);
  return [legend(), picture, reading];
}

function curveNames() {
  return [...DATA.curves, ...(DATA.monitor ? [DATA.monitor] : [])].map((curve) => called(curve.name));
}

// The colour of a curve: losses have colours of their own, the metric and the learning rate have their own panels.
function styleOf(curve, n) {
  return curve.rate ? "line-rate" : curve.monitored ? "line-2" : `line-${n % 6}`;
}

function legend() {
  const names = DATA.curves.map((curve, n) => make("span", { class: `key line-${n % 6}` }, called(curve.name)));
  return make("p", { class: "legend" }, names);
}

// One set of axes with its curves; `marks` gives the position of each curve at a step.
function panel(curves, top, height, across, wanted) {
  const values = curves.flatMap((curve) => curve.points).map((point) => point[1]).filter((value) => value !== null);
  const grid = ticks(Math.min(...values), Math.max(...values), wanted);
  const [low, high] = [Math.min(grid[0], ...values), Math.max(grid[grid.length - 1], ...values)];
  const up = (value) => top + height - (high > low ? (value - low) / (high - low) : 0.5) * height;
  const picture = draw("g", {}, grid.map((value) => [
    draw("line", { class: "grid", x1: PLOT.left, x2: PLOT.width - PLOT.right, y1: up(value), y2: up(value) }),
    draw("text", { class: "tick", x: PLOT.left - 8, y: up(value) + 4, "text-anchor": "end" }, digits(value))]).flat());
  const [first] = curves;
  if (first.rate || first.monitored) {
    const title = first.rate ? first.name : say("monitored", { metric: called(first.name) });
    picture.append(draw("text", { class: "tick", x: PLOT.left + 6, y: top - 7 }, title));
  }
  curves.forEach((curve, n) => {
    picture.append(draw("path", { class: `curve ${styleOf(curve, n)}`, d: trace(curve.points, across, up) }));
  });
  const best = first.monitored ? first.points.find((point) => point[0] === first.best && point[1] !== null) : null;
  if (best) {
    picture.append(draw("circle", { class: "dot best line-2", cx: across(best[0]), cy: up(best[1]), r: 5 },
      draw("title", {}, say("best", { step: best[0].toLocaleString("en"), value: digits(best[1]) }))));
  }
  const marks = curves.map((curve, n) => ({ ...curve, up, style: styleOf(curve, n) }));
  return { picture, marks };
}

// The path of a curve, with a gap where a value is not a number; a value alone between gaps is a dot (a line of length 0).
function trace(points, across, up) {
  let pen = "M";
  return points.map(([step, value]) => {
    if (step === null || value === null) {
      pen = "M";
      return "";
    }
    const part = `${pen}${across(step).toFixed(1)} ${up(value).toFixed(1)}${pen === "M" ? "h0" : ""}`;
    pen = "L";
    return part;
  }).join("");
}

function stepAxis(span, across, bottom) {
  const marks = ticks(span[0], span[1], Math.floor(PLOT.width / 110))
    .filter((step) => step >= span[0] && step <= span[1] && Number.isInteger(step));
  return draw("g", {},
    draw("line", { class: "axis", x1: PLOT.left, x2: PLOT.width - PLOT.right, y1: bottom + 4, y2: bottom + 4 }),
    marks.map((step) => draw("text", { class: "tick", x: across(step), y: bottom + 20, "text-anchor": "middle" },
      step.toLocaleString("en"))));
}

// Round numbers from just below `low` to just above `high`, about `wanted` of them.
function ticks(low, high, wanted) {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
  if (low === high) return [low];
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  const found = [];
  for (let n = Math.floor(low / size); n <= Math.ceil(high / size); n += 1) found.push(Number((n * size).toPrecision(12)));
  return found;
}

// A line that follows the pointer, or the arrow keys, and reads every curve at the nearest step.
function readOff(picture, reading, marks, across, bottom) {
  const steps = [...new Set(marks.flatMap((mark) => mark.points.map((point) => point[0])))]
    .filter((step) => step !== null).sort((a, b) => a - b);
  const ruler = draw("line", { class: "ruler", y1: PLOT.top, y2: bottom, visibility: "hidden" });
  const dots = marks.map((mark) => draw("circle", { class: `dot ${mark.style}`, r: 4, visibility: "hidden" }));
  picture.append(ruler, ...dots);
  let place = steps.length - 1;
  const show = () => {
    const x = across(steps[place]);
    dress(ruler, { x1: x, x2: x, visibility: "visible" }, []);
    const parts = marks.map((mark, n) => {
      const nearest = mark.points.reduce((best, point) =>
        Math.abs(point[0] - steps[place]) < Math.abs(best[0] - steps[place]) ? point : best);
      const known = nearest[1] !== null;
      dress(dots[n], known ? { cx: across(nearest[0]), cy: mark.up(nearest[1]), visibility: "visible" }
        : { visibility: "hidden" }, []);
      return make("span", { class: `key ${mark.style}` }, `${called(mark.name)} ${digits(nearest[1])}`);
    });
    reading.replaceChildren(make("span", {}, say("step", { step: steps[place].toLocaleString("en") })), ...parts);
  };
  if (!steps.length) return;
  show();
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * PLOT.width;
    place = steps.reduce((best, step, n) => Math.abs(across(step) - x) < Math.abs(across(steps[best]) - x) ? n : best, 0);
    show();
  });
  picture.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    place = clamp(place + move, 0, steps.length - 1);
    show();
  });
}
