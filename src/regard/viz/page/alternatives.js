// The best outputs of a search with their scores; one of them is chosen, and its attention is shown.

function alternatives(hypotheses, chosen, choose) {
  if (hypotheses.length < 2) return null;
  const best = hypotheses[0];
  const rows = hypotheses.map((item, n) => {
    const button = make("button", { type: "button", class: "alternative", "aria-pressed": String(n === chosen), dir: "auto",
      onclick: () => choose(n) }, make("span", { class: "text-of" }, n ? compared(best.text, item.text) : item.text),
    make("span", { class: "figure", title: say("score_about") }, written(item.score, 2)));
    button.style.setProperty("--share", `${100 * Math.exp(item.score - best.score)}%`);
    return make("li", {}, button);
  });
  return make("div", { class: "alternatives" }, make("h3", {}, say("alternatives")), make("ol", {}, rows));
}
