// The parts of a report, and those of them that are drawn as wide as the window is.

const PARTS = { learning: drawLearning, attention: drawAttention, examples: drawExamples };
const FITTED = { learning: drawCurves, attention: drawAttention };
