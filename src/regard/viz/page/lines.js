// One head as lines: queries on the left, keys on the right.

const FAINT = 0.02; // a line of a smaller weight would be invisible

function linesView(sheet, room, point) {
  const [rows, columns] = [sheet.rows.map((token) => label(token)), sheet.columns.map((token) => label(token))];
  const pitch = 26;
  const [left, right] = [[say("looking"), ...rows], [say("looked_at"), ...columns]]
    .map((names) => Math.ceil(Math.max(40, ...names.map(textWidth)) + 22));
  const width = Math.min(room, left + right + 420);
  const height = Math.max(rows.length, columns.length) * pitch + 30;
  const start = (names) => 30 + (height - 30 - names.length * pitch) / 2;
  const middle = (names, n) => start(names) + (n + 0.5) * pitch;
  const threads = draw("g", { class: "threads" });
  const lines = [];
  sheet.values.forEach((value, n) => {
    if (value < FAINT) return;
    const [row, column] = [Math.floor(n / columns.length), n % columns.length];
    const [y, z, reach] = [middle(rows, row), middle(columns, column), (width - left - right) / 2];
    const shape = `M${left} ${y} C${left + reach} ${y} ${width - right - reach} ${z} ${width - right} ${z}`;
    const line = draw("path", { d: shape, "stroke-width": (1 + 4 * value).toFixed(2) });
    lines.push({ row, column, value, line });
    threads.append(line);
  });
  const boxes = (names, x, wide, anchor, tokens) => names.map((name, n) => draw("g", { class: "chip" },
    draw("rect", { x, y: middle(names, n) - pitch / 2 + 1.5, width: wide, height: pitch - 3, rx: 6 }),
    named(draw("text", { class: "piece", x: anchor === "end" ? x + wide - 10 : x + 10, y: middle(names, n) + 4.5,
      "text-anchor": anchor }, name), tokens[n])));
  const from = boxes(rows, 0, left - 4, "end", sheet.rows);
  const to = boxes(columns, width - right + 4, right - 4, "start", sheet.columns);
  from.forEach((chip, row) => chip.addEventListener("pointerenter", () => point(row, null)));
  to.forEach((chip, column) => chip.addEventListener("pointerenter", () => point(null, column)));
  const picture = draw("svg", { width, height, class: "lines", role: "img", tabindex: 0,
    "aria-label": say("lines_label", { rows: rows.length, columns: columns.length }) });
  picture.append(draw("text", { class: "tick", x: left - 14, y: 16, "text-anchor": "end" }, say("looking")),
    draw("text", { class: "tick", x: width - right + 14, y: 16 }, say("looked_at")), threads, ...from, ...to);
  const mark = (row, column) => {
    const onlyColumn = row === null && column !== null;
    for (const { row: r, column: c, value, line } of lines) {
      const alone = row !== null ? r === row : onlyColumn && c === column;
      const strength = alone ? 0.15 + 0.85 * Math.sqrt(value) : 0.04 + 0.96 * sheet.lift(value);
      line.style.strokeOpacity = strength.toFixed(3);
      line.classList.toggle("hushed", !alone && (row !== null || onlyColumn));
    }
    const shade = (chip, value, chosen) => {
      chip.classList.toggle("chosen", chosen);
      chip.classList.toggle("strong", !chosen && value > 0.5);
      chip.firstChild.style.fillOpacity = chosen ? "" : value.toFixed(3);
    };
    const at = (r, c) => sheet.lift(sheet.values[r * columns.length + c]);
    from.forEach((chip, r) => shade(chip, onlyColumn ? at(r, column) : 0, r === row));
    to.forEach((chip, c) => shade(chip, row !== null ? at(row, c) : 0, onlyColumn && c === column));
  };
  return { element: make("div", { class: "sheet" }, picture), focus: picture, mark };
}
