// The parts of a report, and those whose size depends on the width of the window.

const PARTS = { learning: drawLearning, tables: drawTables, attention: drawAttention, examples: drawExamples };
const FITTED = { learning: drawCurves, attention: drawAttention };
