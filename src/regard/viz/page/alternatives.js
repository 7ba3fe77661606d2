// The best outputs of a search with their scores; one of them is chosen, and its attention is shown. Without `choose` it
// is a list. Hypotheses with different subwords may have the same text; it is listed once.

function alternatives(hypotheses, chosen = 0, choose = null) {
  const texts = hypotheses.map((item) => item.text);
  if (new Set(texts).size < 2) return null;
  const best = hypotheses[0];
  const rows = hypotheses.map((item, n) => {
    if (texts.indexOf(item.text) < n) return null;
    const attributes = choose ? { type: "button", "aria-pressed": String(n === chosen), onclick: () => choose(n) } : {};
    const row = make(choose ? "button" : "div", { class: "alternative", dir: "auto", ...attributes },
      make("span", { class: "text-of" }, n ? compared(best.text, item.text) : item.text),
      make("span", { class: "figure", title: say("score_about") }, written(item.score, 2)));
    row.style.setProperty("--share", `${100 * Math.exp(item.score - best.score)}%`);
    return make("li", {}, row);
  });
  return make("div", { class: "alternatives" }, make("h3", {}, say("alternatives")), make("ol", {}, rows.filter(Boolean)));
}
