// Save what is drawn as a figure: a copy of the drawings, with the styles of the page written into it.

const COPIED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "visibility",
  "font-family", "font-size", "font-weight"];
const PIXELS = 3; // of a PNG for each pixel on the screen
const AROUND = 14;

// Buttons that save a figure; `drawings()` gives the SVG elements that it has, from top to bottom.
function saveButtons(name, title, drawings) {
  return make("span", { class: "save", role: "group", "aria-label": say("save_figure") }, say("save_figure"),
    ["svg", "png"].map((kind) => make("button", { type: "button", class: "plain-button", "aria-label": `${say("save_figure")}: ${kind.toUpperCase()}`,
      onclick: () => saveFigure(`${name}.${kind}`, figureOf(drawings(), title)) }, kind.toUpperCase())));
}

// The drawings below each other, with a title and the background of the page.
function figureOf(drawings, title) {
  const figure = draw("svg", {});
  const heading = draw("text", { x: AROUND, y: AROUND + 14, "font-family": "system-ui, sans-serif", "font-size": 14, "font-weight": 600,
    fill: getComputedStyle(document.body).color }, title);
  let [width, height] = [textWidth(title) * 1.2, AROUND + (title ? 30 : 0)];
  const parts = drawings.map((drawing) => {
    const box = drawing.getBoundingClientRect();
    const copy = copyOf(drawing);
    if (!drawing.getAttribute("viewBox")) copy.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    dress(copy, { x: AROUND, y: height, width: box.width, height: box.height }, []);
    width = Math.max(width, box.width);
    height += box.height + AROUND;
    return copy;
  });
  const size = { width: Math.ceil(width + 2 * AROUND), height: Math.ceil(height) };
  const ground = draw("rect", { ...size, fill: getComputedStyle(document.querySelector(".card")).backgroundColor });
  return dress(figure, { ...size, viewBox: `0 0 ${size.width} ${size.height}` }, [ground, title ? heading : null, ...parts]);
}

// A copy that needs no style sheet; the cells of a matrix, which are pixels on the page, become shapes.
function copyOf(drawing) {
  const copy = drawing.cloneNode(true);
  const [from, to] = [drawing, copy].map((root) => [root, ...root.querySelectorAll("*")]);
  from.forEach((element, n) => {
    const style = getComputedStyle(element);
    for (const name of COPIED) to[n].setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "role", "aria-label", "data-node", "data-text"]) to[n].removeAttribute(name);
  });
  from.forEach((element, n) => element.matches(".band, .cell, .ruler") && to[n].remove()); // marks of the pointer
  if (drawing.tiles) copy.prepend(drawing.tiles());
  return copy;
}

async function saveFigure(name, figure) {
  const text = new XMLSerializer().serializeToString(figure);
  if (name.endsWith(".svg")) return saveFile(name, new Blob([text], { type: "image/svg+xml" }));
  const image = make("img", { src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}` });
  await image.decode();
  const canvas = make("canvas", { width: PIXELS * figure.getAttribute("width"), height: PIXELS * figure.getAttribute("height") });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toBlob((content) => saveFile(name, content));
}

function saveFile(name, content) {
  const address = URL.createObjectURL(content);
  make("a", { href: address, download: name }).click();
  window.setTimeout(() => URL.revokeObjectURL(address), 60000);
}
