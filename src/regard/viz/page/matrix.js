// One head as a matrix: canvas for the cells, SVG for names, crosshair and pointing.

// Paint weights (rows x columns) one pixel a cell; the style sheet stretches them without smoothing.
function paintSmall(canvas, sheet) {
  canvas.width = sheet.columns.length;
  canvas.height = sheet.rows.length;
  if (!canvas.width || !canvas.height) return;
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const colours = Array.from({ length: 256 }, (_, level) => heat(sheet.lift(level / 255)));
  sheet.values.forEach((value, n) => {
    const [red, green, blue] = colours[Math.round(clamp(value, 0, 1) * 255)];
    image.data[4 * n] = red;
    image.data[4 * n + 1] = green;
    image.data[4 * n + 2] = blue;
    image.data[4 * n + 3] = 255;
  });
  context.putImageData(image, 0, 0);
}

// Paint weights as tiles of `size` with a hair of space between them, sharp on any screen.
function paintTiles(canvas, sheet, size) {
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [size * sheet.columns.length, size * sheet.rows.length];
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const gap = size >= 12 ? 1 : 0;
  sheet.values.forEach((value, n) => {
    const [row, column] = [Math.floor(n / sheet.columns.length), n % sheet.columns.length];
    context.fillStyle = `rgb(${heat(sheet.lift(value)).join(" ")})`;
    context.fillRect(column * size, row * size, size - gap, size - gap);
  });
}

// The matrix view. `point(row, column)` is called with the cell at the pointer; null means all.
function matrixView(sheet, room, point) {
  const [rows, columns] = [sheet.rows.map((token) => label(token)), sheet.columns.map((token) => label(token))];
  const side = Math.ceil(Math.max(24, ...rows.map(textWidth)) + 12);
  const { size, angle, top, spare } = columnRoom(columns, room - side);
  const [width, height] = [size * columns.length, size * rows.length];
  const canvas = make("canvas", { "aria-hidden": "true" });
  canvas.style.left = `${side}px`;
  canvas.style.top = `${top}px`;
  paintTiles(canvas, sheet, size);
  const rowNames = rows.map((name, r) => named(draw("text", { class: "piece", x: side - 8, y: top + (r + 0.5) * size + 4,
    "text-anchor": "end" }, name), sheet.rows[r]));
  const columnNames = columns.map((name, c) => {
    const [x, y] = [side + (c + 0.5) * size + 4, top - 7];
    return named(draw("text", { class: "piece", x, y, transform: `rotate(${angle} ${x} ${y})` }, name), sheet.columns[c]);
  });
  const band = draw("rect", { class: "band", visibility: "hidden" });
  const cell = draw("rect", { class: "cell", visibility: "hidden", width: size, height: size });
  const cover = draw("rect", { x: 0, y: 0, width: side + width, height: top + height, fill: "transparent" });
  const picture = draw("svg", { width: side + width + spare, height: top + height + 2, class: "matrix", role: "img",
    tabindex: 0, "aria-label": say("matrix_label", { rows: rows.length, columns: columns.length }) });
  picture.tiles = () => draw("g", {}, [...sheet.values].map((value, n) => draw("rect", { width: size - 1, height: size - 1,
    x: side + (n % columns.length) * size, y: top + Math.floor(n / columns.length) * size, fill: `rgb(${heat(sheet.lift(value)).join(", ")})` })));
  picture.append(cover, ...rowNames, ...columnNames, band, cell);
  const mark = (row, column) => {
    rowNames.forEach((name, r) => name.classList.toggle("chosen", r === row));
    columnNames.forEach((name, c) => name.classList.toggle("chosen", c === column));
    const rect = row !== null ? { x: side, y: top + row * size, width, height: size }
      : { x: side + (column ?? 0) * size, y: top, width: size, height };
    dress(band, { ...rect, visibility: row === null && column === null ? "hidden" : "visible" }, []);
    dress(cell, { x: side + (column ?? 0) * size, y: top + (row ?? 0) * size,
      visibility: row !== null && column !== null ? "visible" : "hidden" }, []);
  };
  const place = (event) => {
    const box = picture.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - side, event.clientY - box.top - top];
    return [y >= 0 && y < height ? Math.floor(y / size) : null, x >= 0 && x < width ? Math.floor(x / size) : null];
  };
  picture.addEventListener("pointermove", (event) => point(...place(event)));
  picture.addEventListener("pointerdown", (event) => point(...place(event)));
  return { element: make("div", { class: "sheet" }, canvas, picture), focus: picture, mark };
}

// How large the cells can be, and how the columns' names stand above them: leaning, or upright where it is narrow.
function columnRoom(columns, room) {
  const longest = Math.max(20, ...columns.map(textWidth));
  const fit = (spare) => clamp(Math.floor((room - spare) / Math.max(1, columns.length)), 15, 46);
  const lean = Math.ceil(longest * 0.64);
  if (fit(lean) >= 22) return { size: fit(lean), angle: -50, top: Math.ceil(longest * 0.77 + 22), spare: lean };
  return { size: fit(2), angle: -90, top: Math.ceil(longest + 12), spare: 2 };
}

const measure = document.createElement("canvas").getContext("2d");

function textWidth(text) {
  measure.font = "13px system-ui, sans-serif";
  return measure.measureText(text).width;
}

function named(element, title) {
  element.append(draw("title", {}, title));
  return element;
}

// "cat" looks at: 猫 0.81, 喜欢 0.12 …
function readOut(sheet, row, column) {
  const width = sheet.columns.length;
  const pair = (token, value, strong) => make("span", { class: strong ? "weight strong" : "weight" },
    make("bdi", {}, label(token)), ` ${weight(value)}`);
  if (row === null && column === null) return [make("span", { class: "soft" }, say("hint"))];
  const list = row !== null
    ? sheet.columns.map((token, c) => [token, sheet.values[row * width + c], c === column])
    : sheet.rows.map((token, r) => [token, sheet.values[r * width + column], false]);
  const best = [...list].sort((a, b) => b[2] - a[2] || b[1] - a[1]).slice(0, 5)
    .filter((each) => each[2] || each[1] >= 0.005);
  return [make("bdi", { class: "who" }, label(row !== null ? sheet.rows[row] : sheet.columns[column])),
    make("span", { class: "soft" }, say(row !== null ? "looks_at" : "seen_by")), ...best.map((each) => pair(...each))];
}
