// One prediction in one file: the output with its alignment and alternatives, and what is inside.

const PARTS = { result: drawResult, inside: drawInside };
const FITTED = { inside: drawInside };
const inspected = { tab: "attention" };
Object.assign(explorer, DATA.place);

function drawResult(parent) {
  parent.className = "card";
  const [text] = DATA.output;
  const linked = DATA.links.length && typeof text === "string";
  const body = linked ? alignedPair(DATA.examples[0].source, text) : make("div", { class: "aligned" },
    make("p", { class: "soft", dir: "auto" }, nodesOf(DATA.examples[0].source, null)),
    DATA.output.map((value) => make("div", { dir: "auto" }, nodesOf(value, null))));
  refill(parent, make("h2", {}, say("result")), body, alternatives(DATA.hypotheses));
}

// Source and output; a part that is pointed at is marked together with the part that it comes from.
function alignedPair(source, output) {
  const show = (links) => {
    markLinked(from, links, SOURCE_START);
    markLinked(to, links, TARGET_START);
  };
  const from = make("p", { class: "soft", dir: "auto", tabindex: 0, "aria-label": say("source_text") },
    linkedText(source, DATA.links, SOURCE_START, show));
  const to = make("p", { dir: "auto", tabindex: 0, "aria-label": say("translated_text") },
    linkedText(output, DATA.links, TARGET_START, show));
  linkKeys(from, show, () => DATA.links, SOURCE_START);
  linkKeys(to, show, () => DATA.links, TARGET_START);
  return make("div", { class: "aligned" }, from, to);
}

function drawInside(parent) {
  parent.className = "card";
  const tabs = ["attention", ...(Object.keys(DATA.heads).length ? ["arithmetic"] : []), ...(DATA.tree ? ["beam"] : [])];
  const panel = tabPanel(inspected.tab);
  const focused = parent.contains(document.activeElement) && document.activeElement.id;
  parent.replaceChildren(make("div", { class: "inside-bar" }, tabList(say("inside"), tabs.map((key) => [key, say(`tab_${key}`)]),
    inspected.tab, (key) => {
      inspected.tab = key;
      drawInside(parent);
    })), panel);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  if (inspected.tab === "arithmetic") drawArithmetic(panel, DATA.examples[0].maps, storedHead);
  else if (inspected.tab === "beam") drawBeam(panel, DATA.tree);
  else drawAttention(panel);
}

// The numbers of a head, if the file has them.
function storedHead(map, layer, head) {
  const found = DATA.heads[`${map.name}/${layer}/${head}`];
  return found || Promise.reject(new Error(say("not_in_file", { layers: DATA.layers.map((n) => n + 1).join(", ") })));
}
