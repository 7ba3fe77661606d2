// Two runs side by side on the same input; words that differ are marked, and the attention of both is drawn.

const comparison = { result: null };

async function compare() {
  comparison.result = null;
  const example = app.run && currentExample();
  if (app.other && example !== null && app.result) {
    comparison.result = await ask("compare", "predict", { run: app.other, example });
  }
  drawComparison(document.getElementById("compare"));
}

function drawComparison(parent) {
  const { result } = comparison;
  parent.hidden = !result || !app.result;
  if (parent.hidden) return;
  parent.className = "card";
  const sides = [[app.run.name, app.result, result], [app.other, result, app.result]];
  const columns = sides.map(() => make("div", { class: "side" }));
  refill(parent, make("h2", {}, say("comparison")), make("p", { class: "about" }, say("comparison_about")),
    make("div", { class: "boxes" }, columns));
  sides.forEach(([name, own, others], n) => {
    refill(columns[n], make("h3", {}, name), ...own.output.map((value, place) => make("div", { class: "output", dir: "auto" },
      nodesOf(value, others.output[place] ?? null))),
    Number.isFinite(own.score) ? make("p", { class: "soft" }, `${say("output_score")} ${written(own.score, 2)}`) : null,
    sideMap(own, columns[n].clientWidth));
  });
}

// The last kind of attention, the mean of all heads.
function sideMap(result, room) {
  const map = result.maps.find((each) => each.name === explorer.kind) || result.maps[result.maps.length - 1];
  if (!map) return null;
  const sheet = sheetOf(map, MEAN, MEAN);
  const reading = make("p", { class: "reading" });
  const view = matrixView(sheet, room - 8, (row, column) => {
    view.mark(row, column);
    reading.replaceChildren(...readOut(sheet, row, column));
  });
  view.element.addEventListener("pointerleave", () => view.mark(null, null));
  reading.replaceChildren(...readOut(sheet, null, null));
  return make("div", { class: "side-map" }, make("p", { class: "soft" }, `${called(map.name, "map_")}: ${say("all_mean")}`), reading,
    make("div", { class: "scroll" }, view.element));
}
