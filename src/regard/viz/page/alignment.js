// Word alignment: which part of a translation comes from which part of its source. A link is four places in characters:
// start and end in the source, start and end in the translation.

const [SOURCE_START, SOURCE_END, TARGET_START, TARGET_END] = [0, 1, 2, 3];

// A text in which every linked part is a span that shows its links when it is pointed at; `side` is SOURCE_START or
// TARGET_START. `show(links)` marks both sides; null for none.
function linkedText(text, links, side, show) {
  const characters = [...text]; // Python counts code points
  const parts = new Map();
  links.forEach((link) => {
    const place = `${link[side]}:${link[side + 1]}`;
    parts.set(place, [...(parts.get(place) || []), link]);
  });
  const nodes = [];
  let done = 0;
  const inOrder = [...parts.values()].sort(([a], [b]) => a[side] - b[side] || b[side + 1] - a[side + 1]);
  for (const same of inOrder) {
    const [start, end] = [same[0][side], same[0][side + 1]];
    if (start < done || end <= start) continue; // overlapping parts are shown once
    nodes.push(characters.slice(done, start).join(""), make("span", { class: "linked", "data-start": start, "data-end": end,
      onpointerenter: () => show(together(links, same)), onpointerleave: () => show(null) }, characters.slice(start, end).join("")));
    done = end;
  }
  nodes.push(characters.slice(done).join(""));
  return nodes;
}

// All links with the same source as some links: the parts of one word.
function together(links, some) {
  return links.filter((link) => some.some((one) => link[SOURCE_START] === one[SOURCE_START] && link[SOURCE_END] === one[SOURCE_END]));
}

// Mark the linked spans of one side that belong to some links.
function markLinked(parent, links, side) {
  for (const span of parent.querySelectorAll(".linked")) {
    const [start, end] = [Number(span.dataset.start), Number(span.dataset.end)];
    span.classList.toggle("marked", Boolean(links) && links.some((link) => link[side] < end && link[side + 1] > start));
  }
}

// The links whose source contains a character.
function linksAt(links, place) {
  const found = links.filter((link) => link[SOURCE_START] <= place && place < link[SOURCE_END]);
  return found.length ? found : null;
}

// Arrow keys move from one linked part to the next; `linksNow()` are the links of the text that is shown.
function linkKeys(element, show, linksNow, side) {
  let place = -1;
  element.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") show(null);
    const order = [...linksNow()].sort((a, b) => a[side] - b[side]);
    if (!move || !order.length) return;
    event.preventDefault();
    place = clamp(place + move, 0, order.length - 1);
    show(together(order, [order[place]]));
  });
  element.addEventListener("blur", () => show(null));
}
