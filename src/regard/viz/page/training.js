// Curves of the chosen run, also while it trains: the page polls the server for new points.

const EVERY = 2000; // milliseconds between two requests
const training = { panel: null, seen: "", timer: null, started: false, answered: false };

function forgetCurves() {
  window.clearTimeout(training.timer);
  Object.assign(training, { seen: "", started: false, answered: false });
  Object.assign(DATA, { curves: [], monitor: null, rate: [] });
}

// The page may draw itself again, with another panel, before the server answers.
function drawTraining(panel) {
  training.panel = panel;
  const known = DATA.curves.length || DATA.rate.length;
  refill(panel, make("p", { class: "about" }, say("training_about")), known ? make("div", { class: "curves" })
    : make("p", { class: "soft" }, training.answered ? say("no_curves") : say("loading")));
  if (known) {
    drawCurves();
    panel.append(saveButtons("training", app.run.name, () => [...panel.querySelectorAll("svg.plot")]));
  }
  if (!training.started) poll();
}

// Ask for new points as long as the curves are on the screen.
async function poll() {
  training.started = true;
  const { name } = app.run;
  try {
    const seen = encodeURIComponent(training.seen);
    const answer = document.hidden ? null : await ask("curves", `curves?run=${encodeURIComponent(name)}&seen=${seen}`);
    if (name !== app.run.name) return;
    const changed = answer && (addCurves(answer) || !training.answered);
    training.answered ||= Boolean(answer);
    if (changed && app.tab === "training") drawTraining(training.panel);
  } catch (error) {
    refill(training.panel, make("p", { class: "problem" }, error.message));
    return;
  }
  training.timer = window.setTimeout(() => app.tab === "training" ? poll() : forgetCurves(), EVERY);
}

// Add the new points to the curves; true if there were any.
function addCurves(answer) {
  training.seen = answer.seen;
  let added = answer.reset && DATA.curves.length > 0;
  if (answer.reset) Object.assign(DATA, { curves: [], monitor: null, rate: [] });
  for (const { name, points } of answer.curves) {
    if (!points.length) continue;
    added = true;
    const curve = DATA.curves.find((each) => each.name === name);
    if (curve) curve.points = [...curve.points, ...points];
    else DATA.curves.push({ name, points });
  }
  DATA.rate = [...DATA.rate, ...answer.rate];
  if (answer.monitor) {
    DATA.monitor = { ...answer.monitor, points: [...(DATA.monitor?.points || []), ...answer.monitor.points],
      best: answer.monitor.best ?? DATA.monitor?.best ?? null };
  }
  return added;
}
