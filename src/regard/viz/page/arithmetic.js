// One head step by step, with the numbers of the model: from a query and the keys to weights and the weighted sum of values.

const arithmetic = { head: null, row: 0, key: 0, step: "sum" };
const ARRAYS = ["queries", "keys", "values", "vector", "products", "bias", "scores", "mask", "factor", "weights",
  "value_bias", "outputs"];

// `maps` are those of the shown example, `load(map, layer, head)` gives the numbers of a head, or a promise of them.
function drawArithmetic(parent, maps, load) {
  const stepped = maps.filter((map) => map.steps);
  if (!stepped.length) return refill(parent, make("p", { class: "about" }, say("no_steps")));
  const map = stepped.find((each) => each.name === explorer.kind) || stepped[stepped.length - 1];
  const layer = explorer.layer === MEAN ? map.layers - 1 : Math.min(explorer.layer, map.layers - 1);
  const head = explorer.head === MEAN ? 0 : Math.min(explorer.head, map.heads - 1);
  const go = (change) => {
    Object.assign(explorer, { kind: map.name, layer, head }, change);
    drawArithmetic(parent, maps, load);
  };
  const numbers = (count) => [...Array(count).keys()].map((n) => [n, String(n + 1)]);
  const body = make("div", { class: "arithmetic", "aria-live": "polite" });
  refill(parent, make("p", { class: "about" }, say("arithmetic_about")), make("div", { class: "controls" },
    choice(say("kind"), stepped.map((each) => [each.name, called(each.name, "map_")]), map.name, (kind) => go({ kind })),
    make("span", { class: "labelled" }, say("layer"), picker(say("layer"), numbers(map.layers), layer, (n) => go({ layer: n }))),
    make("span", { class: "labelled" }, say("head"), picker(say("head"), numbers(map.heads), head, (n) => go({ head: n })))),
  body);
  Promise.resolve(load(map, layer, head)).then((found) => {
    if (!found || !body.isConnected) return;
    arithmetic.head = Object.fromEntries(Object.entries(found).map(([name, value]) =>
      [name, ARRAYS.includes(name) ? unpack(value) : value]));
    arithmetic.row = Math.min(explorer.row ?? arithmetic.row, map.rows.length - 1);
    arithmetic.key = strongestKey(arithmetic.row);
    drawSteps(body, map);
  }, (error) => refill(body, make("p", { class: "problem" }, error.message)));
}

// The key with the largest weight for a query.
function strongestKey(row) {
  const weights = rowOf(arithmetic.head.weights, row);
  return weights.indexOf(Math.max(...weights));
}

// Buttons for a few values, a list for many.
function picker(label, options, current, choose) {
  if (options.length <= 8) return choice(label, options, current, choose);
  const select = make("select", { "aria-label": label, onchange: (event) => choose(Number(event.target.value)) },
    options.map(([value, name]) => make("option", { value, selected: value === current }, name)));
  return select;
}

function drawSteps(body, map) {
  const again = (change) => {
    Object.assign(arithmetic, change);
    drawSteps(body, map);
  };
  const view = stepsOf(arithmetic.head, arithmetic.row);
  if (!view.steps.some((step) => step.key === arithmetic.step)) arithmetic.step = "sum";
  refill(body, queryChooser(map, again), stepButtons(view, again), explanation(view, map), stepTable(view, map, again),
    outputStrip(view, map));
}

// The tokens that attend: choose one.
function queryChooser(map, again) {
  const words = map.rows.map((token, n) => make("button", { type: "button", class: n === arithmetic.row ? "word chosen" : "word",
    title: token, "aria-pressed": String(n === arithmetic.row), onclick: () => {
      explorer.row = n;
      again({ row: n, key: strongestKey(n) });
    } }, label(token)));
  return make("div", { class: "query" }, make("span", { class: "soft" }, say("choose_query")),
    make("div", { class: "text", role: "group", "aria-label": say("choose_query") }, words));
}

// The numbers of one query, and the steps that this kind of attention has.
function stepsOf(head, row) {
  const query = rowOf(head.queries, row);
  const line = (array) => array && rowOf(array, row);
  const view = { head, query, products: line(head.products), bias: line(head.bias), scores: line(head.scores),
    mask: line(head.mask), factor: line(head.factor), weights: line(head.weights), output: line(head.outputs),
    added: line(head.value_bias), size: query.length };
  view.scaled = view.products.map((value) => value * head.scale);
  view.highest = Math.max(...view.scores.filter((_, n) => view.mask[n]));
  view.exponentials = view.scores.map((value, n) => view.mask[n] ? Math.exp(value - view.highest) : 0);
  view.total = view.exponentials.reduce((sum, value) => sum + value, 0);
  const masked = view.mask.some((allowed) => !allowed);
  const names = ["product", ...(head.scale === 1 ? [] : ["scale"]), ...(head.bias ? ["bias"] : []),
    ...(masked || head.mask.values.some((allowed) => !allowed) ? ["mask"] : []), head.hard ? "hardmax" : "softmax",
    ...(head.factor ? ["factor"] : []), "sum"];
  view.steps = names.map((key, n) => ({ key, number: n + 1 }));
  return view;
}

function stepName(view, key) {
  if (key === "product") return view.head.vector ? "v · tanh(q + k)" : "q · k";
  if (key === "scale") return view.head.vector || !isRoot(view) ? `× ${written(view.head.scale, 2)}` : `÷ √${view.size}`;
  return say(`step_${key}`);
}

// True if the scale is the usual 1 / √d.
function isRoot(view) {
  return Math.abs(view.head.scale - 1 / Math.sqrt(view.size)) < 1e-6;
}

function stepButtons(view, again) {
  return make("ol", { class: "steps" }, view.steps.map((step) => make("li", {}, make("button", { type: "button",
    "aria-pressed": String(step.key === arithmetic.step), onclick: () => again({ step: step.key }) },
  make("span", { class: "count" }, String(step.number)), stepName(view, step.key)))));
}

// The chosen step in words, and as a sum with the numbers of the chosen key.
function explanation(view, map) {
  const step = arithmetic.step;
  const others = { product: view.head.vector && "about_step_additive", scale: !isRoot(view) && "about_step_sharpness" };
  const about = others[step] || `about_step_${step}`;
  return make("div", { class: "explained" }, make("p", {}, say(about, { size: view.size })),
    make("p", { class: "formula" }, formula(view, map, step)));
}

function formula(view, map, step) {
  const { key } = arithmetic;
  const name = make("bdi", { class: "who" }, label(map.columns[key]));
  const keyRow = rowOf(view.head.keys, key);
  const valueRow = rowOf(view.head.values, key);
  switch (step) {
    case "product": return ["q · k(", name, ") = ", ...productSum(view, keyRow), ` = ${written(view.products[key])}`];
    case "scale": return [`${written(view.products[key])} ${isRoot(view) ? `÷ √${view.size}` : `× ${written(view.head.scale)}`} = `
      + written(view.scaled[key])];
    case "bias": return [`${written(view.scaled[key])} + ${term(view.bias[key])} = ${written(view.scores[key])}`];
    case "mask": return [name, view.mask[key] ? ` ${say("allowed")}: ${written(view.scores[key])}` : ` ${say("masked")}: −∞`];
    case "softmax": return [`exp(${written(view.scores[key])} − ${term(view.highest)}) ÷ Σ exp = ${written(view.exponentials[key])} ÷ `
      + `${written(view.total)} = ${written(view.exponentials[key] / (view.total || 1))}`];
    case "hardmax": return [name, ` ${say(view.weights[key] ? "is_largest" : "not_largest")}: ${written(view.weights[key], 0)}`];
    case "factor": return [`${written(view.exponentials[key] / (view.total || 1))} × ${written(view.factor[key])} = `
      + written(view.weights[key])];
    default: return [make("i", {}, "z"), make("sub", {}, "1"), " = ", ...weightedSum(view), ` = ${written(view.output[0])}`,
      make("span", { class: "soft" }, "; "), name, make("span", { class: "soft" },
        `: ${written(view.weights[key])} × ${term(valueRow[0])} = ${written(view.weights[key] * valueRow[0])}`)];
  }
}

// q_1 k_1 + q_2 k_2 + … + q_d k_d, or the same with tanh.
function productSum(view, keyRow) {
  const vector = view.head.vector && view.head.vector.values;
  const part = (n) => vector ? `${term(vector[n])} × tanh(${written(view.query[n])} + ${term(keyRow[n])})`
    : `${term(view.query[n])} × ${term(keyRow[n])}`;
  const last = view.size - 1;
  const parts = view.size <= 4 ? [...keyRow.keys()].map(part) : [part(0), part(1), "…", part(last)];
  return [parts.join(" + ")];
}

// The terms of the first component of z, the largest weights first.
function weightedSum(view) {
  const order = [...view.weights.keys()].sort((a, b) => view.weights[b] - view.weights[a]);
  const parts = order.slice(0, 3).map((n) => `${written(view.weights[n])} × ${term(rowOf(view.head.values, n)[0])}`);
  if (order.length > 3) parts.push("…");
  if (view.added) parts.push(term(view.added[0]));
  return [parts.join(" + ")];
}

// A row for each key, a column for each step. Columns after the chosen step are faint: they are not computed yet.
function stepTable(view, map, again) {
  const order = view.steps.map((step) => step.key);
  const reached = order.indexOf(arithmetic.step);
  const style = (key) => order.indexOf(key) > reached ? "later" : order.indexOf(key) === reached ? "now" : "";
  const fullKeys = largest(view.query, view.head.keys.values);
  const fullValues = largest(view.head.values.values);
  const cells = {
    product: (n) => written(view.products[n]), scale: (n) => written(view.scaled[n]), bias: (n) => written(view.bias[n]),
    mask: (n) => view.mask[n] ? "✓" : "−∞", factor: (n) => written(view.factor[n]),
    softmax: (n) => written(view.weights[n]), hardmax: (n) => written(view.weights[n], 0),
  };
  const columns = order.filter((key) => key !== "sum");
  const heads = [["key_column", ""], ["k", "vector"], ...columns.map((key) => [key, style(key)]), ["v", `vector ${style("sum")}`]];
  const head = make("tr", {}, heads.map(([key, kind]) => make("th", { scope: "col", class: kind },
    key === "key_column" ? say("looked_at") : key === "k" || key === "v" ? make("i", {}, key) : stepName(view, key))));
  const rows = map.columns.map((token, n) => {
    const row = make("tr", { class: [n === arithmetic.key ? "chosen" : "", view.mask[n] ? "" : "masked"].join(" ") },
      make("th", { scope: "row" }, make("button", { type: "button", class: "key-name", title: token,
        "aria-pressed": String(n === arithmetic.key), tabindex: n === arithmetic.key ? 0 : -1, onclick: () => again({ key: n }) },
      make("bdi", {}, label(token)))),
      make("td", { class: "vector" }, strip(rowOf(view.head.keys, n), fullKeys, say("vector_of", { name: "k", token }))),
      columns.map((key) => {
        const cell = make("td", { class: `figure ${style(key)}${key === "softmax" || key === "hardmax" ? " share" : ""}` }, cells[key](n));
        if (key === "softmax" || key === "hardmax") cell.style.setProperty("--share", `${100 * view.weights[n]}%`);
        return cell;
      }),
      make("td", { class: `vector ${style("sum")}` }, strip(rowOf(view.head.values, n), fullValues, say("vector_of", { name: "v", token }))));
    row.addEventListener("pointermove", () => {
      if (arithmetic.key !== n) markKey(row, n, view, map);
    });
    return row;
  });
  const query = make("tr", { class: "query-row" }, make("th", { scope: "row" }, make("i", {}, "q"), " ",
    make("bdi", { class: "who" }, label(map.rows[arithmetic.row]))),
  make("td", { class: "vector" }, strip(view.query, fullKeys, say("vector_of", { name: "q", token: map.rows[arithmetic.row] }))),
  make("td", { colspan: columns.length + 1 }));
  const table = make("table", { class: "step-table" }, make("thead", {}, head), make("tbody", {}, query, rows));
  table.addEventListener("keydown", (event) => {
    const move = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    const body = table.closest(".arithmetic");
    again({ key: clamp(arithmetic.key + move, 0, map.columns.length - 1) });
    body.querySelector('.key-name[aria-pressed="true"]').focus();
  });
  return make("div", { class: "scroll" }, table);
}

// Choose the key at the pointer without drawing the table again.
function markKey(row, key, view, map) {
  arithmetic.key = key;
  for (const each of row.parentElement.children) each.classList.toggle("chosen", each === row);
  for (const button of row.parentElement.querySelectorAll(".key-name")) {
    button.setAttribute("aria-pressed", String(button.closest("tr") === row));
  }
  row.closest(".arithmetic").querySelector(".formula").replaceChildren(...formula(view, map, arithmetic.step));
}

// z, the output of the head for the query.
function outputStrip(view, map) {
  const order = view.steps.map((step) => step.key);
  const later = order.indexOf(arithmetic.step) < order.length - 1;
  const reading = make("span", { class: "soft figure" });
  const read = (n) => {
    reading.textContent = n === null ? "" : `z${n + 1} = ${written(view.output[n])}`;
  };
  return make("div", { class: later ? "result later" : "result" },
    make("span", {}, make("i", {}, "z"), " ", make("bdi", { class: "who" }, label(map.rows[arithmetic.row])), " = Σ ",
      make("i", {}, "a v"), view.added ? " + c" : ""),
    strip(view.output, largest(view.output), say("vector_of", { name: "z", token: map.rows[arithmetic.row] }), read), reading,
    make("p", { class: "soft" }, say(map.heads > 1 ? "about_output" : "about_one_output")));
}
