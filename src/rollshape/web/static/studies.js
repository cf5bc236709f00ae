// Studies: progress of every trial, scores of each shape as they come in, learning curves, verdict and report.

import { remember } from "./app.js";
import { get } from "./backend.js";
import { COLORS, intervalPlot, lineChart, shapeGrid } from "./chart.js";
import { commandBox, empty, errorBox, h, integer, number, plural, replace, severity } from "./dom.js";

const X = { timesteps: "timesteps", seconds: "seconds", gradient_steps: "gradient steps" };
const ANSWERS = { confirmed: "good", refuted: "bad" }; // color of the headline
let path, side, body, timer, x, drawn;

export function show(main, query) {
  path = query.get("study");
  x = query.get("x") in X ? query.get("x") : "timesteps";
  drawn = "";
  side = h("nav", { class: "panel side", "aria-label": "Studies" }, h("p", { class: "muted", role: "status" }, "Reading…"));
  body = h("div", { class: "results" }, h("p", { class: "loading", role: "status" }, "Reading…"));
  replace(main, side, body);
  load(main);
  return () => clearTimeout(timer);
}

async function load(main) {
  const answer = await get("studies");
  if (!body.isConnected) return;
  if (answer.error) { replace(side, errorBox(answer.error)); return; }
  if (!answer.studies.length) { replace(main, empty("No studies yet", "A study compares shapes over several seeds.", "rollshape study demo --out studies/demo")); return; }
  if (!answer.studies.some((study) => study.path === path)) path = answer.studies[0].path;
  drawSide(answer.studies);
  await open();
}

function drawSide(studies) {
  replace(side, h("h2", {}, "Studies"), h("ul", {}, studies.map((study) => h("li", {}, h("a", { href: `#studies?${new URLSearchParams({ study: study.path })}`, "aria-current": study.path === path ? "page" : null },
    h("strong", {}, study.title), h("span", { class: "muted" }, study.error ? "cannot be read" : `${study.path} · ${integer(study.ended)} of ${integer(study.trials)} trials`))))));
}

async function open() {
  const started = performance.now();
  const study = await get("study", { path });
  if (!body.isConnected) return;
  const text = JSON.stringify(study);
  if (text !== drawn) { drawn = text; draw(study); }
  const isRunning = !study.error && study.trials.some((trial) => ["pending", "running"].includes(trial.state));
  if (isRunning) timer = setTimeout(open, Math.max(3000, 5 * (performance.now() - started))); // a large study is read less often
}

function draw(study) {
  if (study.error) { replace(body, h("section", { class: "panel" }, h("h2", {}, path), errorBox(study.error))); return; }
  replace(body,
    verdict(study), progress(study), study.tasks.map((task) => scores(task, study)), study.outcomes && outcomes(study));
}

// What to use, the answer to the claim, and behind a click how both were decided.
function verdict(study) {
  const lines = study.summary.filter((line) => line !== `Claim: ${study.claim}`);
  return h("section", { class: "panel", "aria-label": "Verdict" },
    h("div", { class: "toolbar" }, h("h2", {}, study.title), h("span", { class: "grow" }),
      study.report && h("a", { class: "button small", href: `report?${new URLSearchParams({ path: study.path })}`, target: "_blank", rel: "noopener" }, "Open the report")),
    study.recommendation.map((line) => h("p", { class: "verdict" }, line)), study.commands.map(commandBox),
    study.claim && h("p", {}, h("span", { class: "muted" }, "Claim: "), study.claim, " ", study.headline && h("strong", { class: ANSWERS[study.answer] ?? "" }, `${study.headline}.`)),
    study.waiting && h("p", { class: "muted" }, study.waiting),
    lines.length > 0 && h("details", {}, h("summary", {}, "Evidence"), h("ul", {}, lines.map((line) => h("li", {}, line)))));
}

function progress(study) {
  const count = (...states) => study.trials.filter((trial) => states.includes(trial.state)).length;
  const failed = count("failed"), running = count("running"), paused = count("paused");
  const shapes = Object.entries(Object.groupBy(study.trials, (trial) => `${integer(trial.num_envs)} × ${integer(trial.num_steps)}`));
  return h("section", { class: "panel", "aria-label": "Progress" }, h("h2", {}, `Trials: ${integer(count("done", "diverged"))} of ${integer(study.trials.length)} ended`,
    h("span", { class: "muted" }, failed > 0 && `, ${integer(failed)} failed`, running > 0 && `, ${integer(running)} running`, paused > 0 && `, ${integer(paused)} paused: a race trains few to the end`)),
    h("div", { class: "shapes" }, shapes.map(([shape, trials]) => h("div", { class: "trials" }, shapes.length <= 24 && h("span", { class: "muted" }, shape), trials.map((trial) => {
      const label = `${integer(trial.num_envs)} × ${integer(trial.num_steps)}, seed ${trial.seed}: ${trial.state}${trial.state === "running" ? ` ${Math.floor(100 * trial.progress)} %` : ""}${trial.final_return === null ? "" : `, return ${number(trial.final_return)}`}${trial.reason ? ` (${trial.reason})` : ""}`;
      return h("a", { class: trial.state, href: `#runs?${new URLSearchParams({ run: `${study.path}/trials/${trial.id}`.replace(/^\.\//, "") })}`, title: label, "aria-label": label });
    })))),
    h("p", { class: "muted note" }, "One square per trial, with a link to its run."),
    study.illegal.length > 0 && h("details", {}, h("summary", {}, `${plural(study.illegal.length, "point")} cannot be run`), h("ul", {}, study.illegal.map((point) => h("li", {}, `${JSON.stringify(point.point)}: ${point.message} ${point.fix}`)))));
}

function scores(task, study) {
  const groups = task.groups;
  const shapes = new Set(groups.map((group) => `${group.num_envs}x${group.num_steps}`));
  const color = new Map(groups.map((group, i) => [group.label, COLORS[i % COLORS.length]]));
  const chart = lineChart({ label: "Learning curves", xLabel: X[x], yLabel: task.metric, height: 320 });
  const update = () => { chart.setOptions({ xLabel: X[x] }); chart.update(groups.filter((group) => group.curves[x]).slice(0, 16).map((group, i) => ({ name: group.label, color: color.get(group.label), dash: i < COLORS.length ? null : "6 4", x: group.curves[x].x, y: group.curves[x].value, ...(groups.length <= COLORS.length && { low: group.curves[x].low, high: group.curves[x].high }) }))); };
  const cells = groups.map((group) => {
    const trials = study.trials.filter((trial) => trial.num_envs === group.num_envs && trial.num_steps === group.num_steps);
    const done = trials.length ? trials.reduce((sum, trial) => sum + trial.progress, 0) / trials.length : 1;
    return { num_envs: group.num_envs, num_steps: group.num_steps, value: group.final_return?.value ?? null, progress: done, text: group.final_return ? number(group.final_return.value) : "…", note: `${group.finished} of ${group.runs} runs finished` };
  });
  setTimeout(update);
  return h("section", { class: "panel", "aria-label": `Scores on ${task.label}` }, h("h2", {}, task.label),
    (groups.some((group) => group.final_return) || !study.trials.some((trial) => trial.state === "paused")) && h("div", { class: "two" },
      h("div", { class: "stack" }, h("h3", {}, "Final return, best first"), intervalPlot({ label: "Final return", xLabel: "final return with 95 % interval over seeds", rows: groups.map((group) => ({ label: group.label, color: color.get(group.label), ...(group.final_return ?? { value: null }), note: group.finished < group.runs ? `${group.finished}/${group.runs}` : "" })) })),
      shapes.size === groups.length && shapes.size > 1 && h("div", { class: "stack" }, h("h3", {}, "Final return by shape"), shapeGrid({ label: "Final return by number of environments N and steps T", cells }))),
    h("div", { class: "toolbar" }, h("h3", {}, groups.length <= COLORS.length ? "Learning curves with 95 % intervals" : "Learning curves"), h("label", {}, "Against", h("select", { id: "study-x", onchange: (event) => { x = event.target.value; remember("studies", new URLSearchParams({ study: path, ...(x !== "timesteps" && { x }) })); update(); } }, Object.entries(X).map(([name, label]) => h("option", { value: name, selected: name === x }, label))))),
    chart, task.threshold && h("p", { class: "muted" }, `Threshold: ${number(task.threshold.value)}, ${task.threshold.source}.`));
}

function outcomes(study) {
  const bad = study.outcomes.filter((outcome) => outcome.is_bad);
  const counts = Object.entries(Object.groupBy(study.outcomes, (outcome) => outcome.verdict)).map(([name, list]) => `${name} ${list.length}`).join(", ");
  return h("section", { class: "panel", "aria-label": "Outcomes" }, h("h2", {}, "Run outcomes"), h("p", {}, counts),
    bad.length > 0 && h("details", {}, h("summary", {}, `${plural(bad.length, "run")} to look at`), bad.slice(0, 60).map((outcome) => h("div", { class: "finding" }, h("span", { class: "badge" }, outcome.verdict),
      h("div", {}, h("p", {}, h("a", { href: `#runs?${new URLSearchParams({ run: `${study.path}/trials/${outcome.path}` })}` }, `${outcome.shape}, seed ${outcome.seed}`), `: ${outcome.reason}`), outcome.suspects.map((finding) => h("p", { class: "muted" }, severity(finding.severity), " ", finding.message)))))));
}
