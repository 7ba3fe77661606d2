// Texts as points: the two main directions of their vectors, and the nearest neighbours of each.

const vectors = { chosen: 0 };

function drawVectors(parent, found) {
  const { points, texts, cosines } = found;
  vectors.chosen = Math.min(vectors.chosen, texts.length - 1);
  const near = make("div", { class: "neighbours", "aria-live": "polite" });
  const picture = textMap(found, parent.clientWidth, (n) => {
    vectors.chosen = n;
    show();
  });
  const show = () => {
    for (const dot of picture.querySelectorAll("[data-text]")) {
      dot.classList.toggle("chosen", Number(dot.dataset.text) === vectors.chosen);
    }
    const order = texts.map((text, n) => [text, cosines[vectors.chosen][n], n]).filter(([, , n]) => n !== vectors.chosen)
      .sort((a, b) => b[1] - a[1]).slice(0, 8);
    refill(near, make("h3", {}, say("neighbours_of")), make("p", { class: "who", dir: "auto" }, texts[vectors.chosen]),
      make("table", { class: "details" }, make("tbody", {}, order.map(([text, cosine]) => {
        const cell = make("td", { class: "figure share" }, written(cosine, 2));
        cell.style.setProperty("--share", `${clamp(100 * cosine, 0, 100)}%`);
        return make("tr", {}, make("td", { dir: "auto" }, text), cell);
      }))));
  };
  refill(parent, make("div", { class: "vector-map" }, make("figure", {}, picture,
    make("figcaption", { class: "soft" }, say("map_caption", { first: Math.round(100 * (found.shares[0] || 0)),
      second: Math.round(100 * (found.shares[1] || 0)) })), saveButtons("vectors", "", () => [picture])), near));
  if (points.length) show();
}

function textMap({ points, texts }, room, choose) {
  const width = clamp(room > 760 ? room * 0.6 : room, 260, 760);
  const height = Math.round(width * 0.62);
  const [xs, ys] = [points.map((point) => point[0]), points.map((point) => point[1])];
  const reach = (values) => Math.max(...values) - Math.min(...values);
  const unit = Math.min((width - 170) / (reach(xs) || 1), (height - 70) / (reach(ys) || 1)); // one scale for both directions
  const place = (values, size) => (value) => size / 2 + (value - (Math.max(...values) + Math.min(...values)) / 2) * unit;
  const [across, up] = [place(xs, width), place(ys, height)];
  const spots = texts.map((text, n) => ({ x: across(xs[n]), y: height - up(ys[n]), name: label(text, 22).replaceAll("␣", " ") }));
  const names = placeNames(spots, width);
  const dots = texts.map((text, n) => draw("g", { class: names[n].crowded ? "text-dot crowded" : "text-dot", "data-text": n, tabindex: 0,
    role: "button", "aria-label": text, onpointerenter: () => choose(n), onfocus: () => choose(n) },
  draw("circle", { cx: spots[n].x, cy: spots[n].y, r: 6 }),
  draw("text", { x: names[n].x, y: names[n].y, "text-anchor": names[n].anchor }, spots[n].name)));
  return draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "text-map" }, dots);
}

// A place for each name beside its dot, where it covers no other name and no dot; if there is none it is crowded, and shown
// only when its dot is chosen.
function placeNames(spots, width) {
  const taken = spots.map(({ x, y }) => [x - 7, y - 7, x + 7, y + 7]);
  return spots.map(({ x, y, name }) => {
    const size = textWidth(name);
    const places = [[x + 11, y + 4, "start"], [x - 11, y + 4, "end"], [x, y - 11, "middle"], [x, y + 20, "middle"]];
    for (const [left, base, anchor] of places) {
      const start = left - (anchor === "start" ? 0 : anchor === "end" ? size : size / 2);
      const box = [start, base - 11, start + size, base + 3];
      const free = box[0] > 2 && box[2] < width - 2
        && !taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]);
      if (free) {
        taken.push(box);
        return { x: left, y: base, anchor, crowded: false };
      }
    }
    return { x, y: y - 11, anchor: "middle", crowded: true };
  });
}
