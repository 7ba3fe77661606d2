// The lab: contents by topic, and every experiment with plot, numbers and code.

const PARTS = { contents: drawContents, experiments: drawExperiments };
const FITTED = {};
const KINDS = ["confirmed", "refuted", "not decided"];
const lab = { kind: "all", places: {} };

function inLanguage(text) {
  return text[page.language];
}

function found(name) {
  return DATA.experiments.find((experiment) => experiment.name === name);
}

function kindOf(experiment) {
  return experiment.result ? experiment.result.kind : "not run";
}

function badge(kind) {
  return make("span", { class: `badge ${kind.replace(" ", "-")}` }, say(`kind_${kind.replace(" ", "_")}`));
}

function linkTo(experiment, text) {
  return make("a", { href: `#${page.language}/${experiment.name}` }, text);
}

function drawContents(parent) {
  const topics = DATA.topics.map((topic) => {
    const members = DATA.experiments.filter((experiment) => experiment.topic === topic.key);
    return members.length ? make("div", {}, make("h3", {}, inLanguage(topic)), make("ul", { class: "plain" },
      members.map((experiment) => make("li", {}, linkTo(experiment, inLanguage(experiment.title)), " ", badge(kindOf(experiment)))))) : null;
  });
  parent.className = "card";
  refill(parent, make("h2", {}, say("contents")), make("p", { class: "about" }, say("contents_about")),
    make("div", { class: "topics" }, topics.filter((topic) => topic)));
}

function drawExperiments(parent) {
  const open = new Set([...parent.querySelectorAll("details[open]")].map((each) => each.id));
  refill(parent, ...DATA.topics.flatMap((topic) => {
    const members = DATA.experiments.filter((experiment) => experiment.topic === topic.key);
    return members.length ? [make("h2", { class: "topic" }, inLanguage(topic)), ...members.map(drawExperiment)] : [];
  }));
  for (const each of parent.querySelectorAll("details")) each.open = open.has(each.id);
}

function drawExperiment(experiment) {
  const result = experiment.result;
  return make("article", { class: "card experiment", id: `lab-${experiment.name}`, tabindex: -1 },
    make("div", { class: "heading" }, make("h3", {}, inLanguage(experiment.title)), badge(kindOf(experiment))),
    result ? make("p", { class: "meaning verdict" }, inLanguage(result.sentence)) : null,
    (result?.findings ?? []).map((finding) => make("p", { class: "meaning" },
      badge(finding.kind), " ", inLanguage(finding.claim), " ", inLanguage(finding.numbers))),
    experiment.claims.map((claim) => make("p", { class: "asks" }, badge(claim.verdict), " ",
      make("strong", {}, inLanguage(claim.claim)), make("br"), inLanguage(claim.reason))),
    result && result.quick ? make("p", { class: "soft" }, say("quick")) : null,
    result && !result.current ? make("p", { class: "soft" }, say("outdated")) : null,
    make("div", { class: "evidence" },
      result ? make("div", { class: "charts" }, result.plots[page.language].map(chart)) : null, facts(experiment)),
    result ? numbers(experiment) : null,
    make("details", { id: `code-${experiment.name}` }, make("summary", {}, `${say("code")} ${experiment.file}`),
      make("pre", { class: "code", tabindex: 0 }, experiment.code)));
}

// A plot that Python has drawn. Its text is escaped there; the policy of the page runs nothing that is in it.
function chart(svg) {
  const drawn = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  return make("div", { class: "scroll" }, document.importNode(drawn, true));
}

function facts(experiment) {
  const result = experiment.result;
  const entries = ["hypothesis", "varied", "measured", "refuted_if"].map((key) => [say(key), inLanguage(experiment[key])]);
  if (experiment.papers.length) entries.push([say("papers"), experiment.papers.join("; ")]);
  entries.push([say("runs"), result ? say("seeds", result) : say("expected", { seconds: experiment.expected })]);
  return make("dl", { class: "sentence-pair" }, entries.map(([name, text]) =>
    [make("dt", {}, name), make("dd", { dir: "auto" }, text)]).flat(),
  make("dt", {}, say("repeat")), make("dd", {}, make("code", {}, `regard lab ${experiment.name}`)));
}

function numbers(experiment) {
  const tables = experiment.result.tables[page.language].map((table) => [
    make("h4", {}, table.title),
    make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": table.title }, make("table", { class: "details" },
      make("thead", {}, make("tr", {}, table.columns.map((name, n) => make("th", { scope: "col", class: n ? "figure" : null }, name)))),
      make("tbody", {}, table.rows.map(([x, ...cells]) => make("tr", {}, make("th", { scope: "row" }, x),
        cells.map((cell) => make("td", { class: "figure" }, cell ? cell[0] : "–",
          cell ? make("span", { class: "soft seeds" }, cell[1]) : null)))))))]);
  return make("details", { id: `numbers-${experiment.name}` }, make("summary", {}, say("numbers")),
    make("p", { class: "about" }, say("numbers_about")), ...tables.flat());
}

// #zh/heads is the experiment "heads" in Chinese.
function goToPlace() {
  const name = window.location.hash.slice(1).split("/").pop();
  const place = document.getElementById(`lab-${name}`);
  if (!place) return;
  place.scrollIntoView();
  place.focus({ preventScroll: true });
}

window.addEventListener("hashchange", () => window.setTimeout(goToPlace));
window.setTimeout(goToPlace);
