// One head over running text: point at a word of either sentence and the other is shaded by its weights.

function sentenceView(sheet, room, point) {
  const width = sheet.columns.length;
  const words = (tokens, pick) => tokens.map((token, n) => make("span", { class: "word", dir: "auto", title: token,
    onpointerenter: () => point(...pick(n)), onpointerdown: () => point(...pick(n)) }, label(token, 40)));
  const from = words(sheet.rows, (row) => [row, null]);
  const to = words(sheet.columns, (column) => [null, column]);
  const element = make("div", { class: "sentences", role: "img", tabindex: 0,
    "aria-label": say("sentence_label", { rows: from.length, columns: to.length }) },
  make("p", { class: "soft" }, say("looking")), make("p", { class: "text", dir: direction(sheet.rows) }, from),
  make("p", { class: "soft" }, say("looked_at")), make("p", { class: "text", dir: direction(sheet.columns) }, to));
  const shade = (word, value, chosen) => {
    const colour = value === null ? null : heat(sheet.lift(value));
    word.classList.toggle("chosen", chosen);
    word.style.background = colour ? `rgb(${colour.join(" ")})` : "";
    word.style.color = colour ? (luminance(colour) > 0.36 ? "#10161d" : "#ffffff") : "";
  };
  const mark = (row, column) => {
    const back = row === null && column !== null;
    from.forEach((word, r) => shade(word, back ? sheet.values[r * width + column] : null, r === row));
    to.forEach((word, c) => shade(word, row !== null ? sheet.values[row * width + c] : null, back && c === column));
  };
  return { element, focus: element, mark };
}

// Which way a sentence runs: the way most of its letters do, whatever marks like </s> stand around it.
function direction(tokens) {
  const letters = tokens.join("").match(/\p{L}/gu) || [];
  const leftwards = letters.filter((letter) => /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(letter));
  return leftwards.length * 2 > letters.length ? "rtl" : "ltr";
}

function luminance([red, green, blue]) {
  return (0.2126 * (red / 255) ** 2.2) + (0.7152 * (green / 255) ** 2.2) + (0.0722 * (blue / 255) ** 2.2);
}
