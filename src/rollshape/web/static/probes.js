// Probes: what the gradient of a run's batches is made of, and what other shapes would give.

import { get } from "./backend.js";
import { COLORS, intervalPlot, lineChart } from "./chart.js";
import { commandBox, empty, errorBox, folderOf, h, integer, nameOf, replace } from "./dom.js";

let path, side, body;

export function show(main, query) {
  path = query.get("probe");
  side = h("nav", { class: "panel side", "aria-label": "Probes" }, h("p", { class: "muted", role: "status" }, "Reading…"));
  body = h("div", { class: "results" }, h("p", { class: "loading", role: "status" }, "Reading…"));
  replace(main, side, body);
  load(main);
}

async function load(main) {
  const answer = await get("probes");
  if (!body.isConnected) return;
  if (answer.error) { replace(side, errorBox(answer.error)); return; }
  if (!answer.probes.length) { replace(main, empty("No probes yet", "A probe measures how good the gradients of a run's batches are, and predicts those of other shapes.", "rollshape probe RUN_DIR")); return; }
  if (!answer.probes.some((probe) => probe.path === path)) path = answer.probes[0].path;
  replace(side, h("h2", {}, "Probes"), h("ul", {}, answer.probes.map((probe) => h("li", {}, h("a", { href: `#probes?${new URLSearchParams({ probe: probe.path })}`, "aria-current": probe.path === path ? "page" : null },
    h("strong", {}, nameOf(probe.run)), h("span", { class: "muted" }, [folderOf(probe.run).slice(0, -1), probe.at].filter(Boolean).join(" · ")))))));
  const { run, at } = answer.probes.find((probe) => probe.path === path);
  const document_ = await get("probe", { path });
  if (!body.isConnected) return;
  if (document_.error) { replace(body, h("section", { class: "panel" }, h("h2", {}, path), errorBox(document_.error))); return; }
  const { probe, sentences, kind } = document_;
  replace(body, h("section", { class: "panel", "aria-label": "Results" }, h("h2", {}, `${nameOf(run)} `, h("span", { class: "muted" }, at)), h("ul", {}, sentences.map((line) => h("li", {}, line))), commandBox(probe.command), h("p", {}, h("a", { href: `#runs?${new URLSearchParams({ run: run.replace(/^\.\//, "") })}` }, "Open the run"))),
    kind === "gradient" && [h("div", { class: "two" }, variance(probe), samples(probe)), surface(probe), h("div", { class: "two" }, noise(probe), bias(probe)), h("div", { class: "two" }, probe.minibatch && minibatches(probe), autocorrelation(probe))]);
}

function figure(title, picture, caption, meaning) {
  return h("section", { class: "panel", "aria-label": title }, h("h2", {}, title), picture, h("p", { class: "muted" }, caption), h("details", {}, h("summary", {}, "What does this mean?"), meaning.map((line) => h("p", { class: "stack" }, line))));
}

const estimate = (label, value, ci, color) => ({ label, value, low: ci?.[0], high: ci?.[1], color });

function variance({ variance: v }) {
  return figure("Gradient variance", intervalPlot({ label: "Gradient variance", xLabel: "variance of the gradient of one batch", rows: [
    estimate("Term 1: each step by itself", v.individual, v.ci.individual, COLORS[0]), estimate("Term 2: correlation of steps", v.covariance, v.ci.covariance, COLORS[1]), estimate("Total", v.total, v.ci.total, COLORS[7])] }),
  "Bars are 95 % intervals over environments.",
  ["The gradient of a batch is a mean over its steps. Term 1 is the variance that the mean would have if all steps were independent. Term 2 is what correlation between steps of one environment adds; it is negative if they cancel.",
    "If Term 2 is large and positive, consecutive steps repeat each other: more environments and fewer steps each give a better gradient from as many samples. If it is near zero, only the number of samples matters."]);
}

function samples(probe) {
  const size = probe.geometry.num_envs * probe.geometry.num_steps;
  return figure("Effective sample size", intervalPlot({ label: "Effective sample size", xLabel: "steps", rows: [estimate("Effective", probe.effective_sample_size, probe.effective_sample_size_ci, COLORS[0]), estimate("Collected", size, null, COLORS[7])] }),
    `A batch of ${integer(size)} steps is worth as much as ${integer(probe.effective_sample_size)} independent ones.`,
    ["It is the collected number of steps divided by their correlation time. Equal numbers mean that no sample is wasted; half means that a batch of half the size, of independent steps, would be as good."]);
}

function surface(probe) {
  const points = [...probe.surface].sort((a, b) => a.num_steps - b.num_steps);
  const line = (name, key, color, dash) => ({ name, color, dash, hasBand: key === "mse", x: points.map((p) => p.num_steps), y: points.map((p) => p[key]), low: points.map((p) => p.ci?.[key]?.[0]), high: points.map((p) => p.ci?.[key]?.[1]) });
  const chart = lineChart({ label: "Error of the gradient by shape", xLabel: "steps T", yLabel: "squared error", xLog: true, yLog: true, xTicks: points.map((p) => p.num_steps), points: true, height: 330 });
  setTimeout(() => chart.update([line("total error (one update)", "mse", COLORS[0]), line("variance", "variance", COLORS[1]), line("bias²", "bias2", COLORS[2]), line("bias² + variance over several updates", "score", COLORS[3], "5 4")]));
  const name = (key) => (probe.best?.separated?.[key] === false ? "none is significantly better than the run's own" : probe.best?.[key] ? `${integer(probe.best[key].num_envs)} × ${integer(probe.best[key].num_steps)}` : "–");
  return figure("Other shapes", chart, `All splits of ${integer(probe.geometry.rollout_size)} steps into N environments × T steps. The band is the 95 % interval of the total error. Best for one update: ${name("mse")}; over several updates: ${name("score")}.`,
    ["Short windows (left) rely on the value function at their edge: small variance, but bias. Long windows (right) contain more real rewards: less bias, but fewer independent environments.",
      "Noise averages out over several updates and bias does not. So the dashed curve, which divides the variance by the number of updates over which it averages, is the better guide for a whole run. All shapes share most of their uncertainty, so a best one is named by the interval of its difference to the run's own shape, which is narrower than those in the figure."]);
}

function noise({ noise_scale: n }) {
  const rows = [["Rollshape (environments as units)", "clustered", COLORS[0]], ["Standard estimator (steps as units)", "naive", COLORS[7]]].map(([label, key, color]) => estimate(label, n?.[key], n?.ci?.[key], color));
  return figure("Gradient noise scale", n?.clustered === null || !n ? h("p", { class: "sentence" }, n?.reason ?? "Not measured.") : intervalPlot({ label: "Gradient noise scale", xLabel: "steps", rows, xLog: true }),
    "The number of steps at which signal and noise of the gradient are equal.",
    ["Batches much smaller than this are mostly noise: twice as many samples make the gradient clearly better. Batches much larger than this waste samples: the gradient hardly improves."]);
}

function bias({ bias: b }) {
  const names = { total: "Total", window: "Cut after T steps", estimator: "Estimator (GAE and value function)" };
  const rows = Object.entries(names).filter(([key]) => b?.[key]).map(([key, label], i) => estimate(label, b[key].relative === null ? null : Math.sqrt(b[key].relative) * 100, b[key].relative_ci?.map((value) => Math.sqrt(Math.max(0, value)) * 100), COLORS[i]));
  return figure("Bias of the gradient", rows.some((row) => row.value !== null) ? intervalPlot({ label: "Bias", xLabel: "% of the length of the true gradient", rows }) : h("p", { class: "sentence" }, b?.total?.reason ?? "Not measured."),
    "How far the mean gradient is from the true policy gradient.",
    ["Bias does not average out: with any number of samples, the gradient points somewhere else by this much. Longer rollouts reduce the part that comes from cutting episodes off; a better value function reduces the rest."]);
}

function minibatches({ minibatch }) {
  const chart = lineChart({ label: "Cosine of minibatch gradients", xLabel: "minibatch size", yLabel: "cosine with the full gradient", xLog: true, xTicks: minibatch.map((point) => point.size), points: true, height: 260 });
  const x = minibatch.map((point) => point.size);
  setTimeout(() => chart.update([{ name: "measured", color: COLORS[0], x, y: minibatch.map((point) => point.cosine), low: minibatch.map((point) => point.ci?.cosine?.[0]), high: minibatch.map((point) => point.ci?.cosine?.[1]) },
    { name: "predicted from the noise scale", color: COLORS[7], dash: "5 4", x, y: minibatch.map((point) => point.predicted?.cosine) }]));
  return figure("Minibatch size", chart, "How well the gradient of a minibatch agrees with that of the whole rollout.", ["1 is the same direction, 0 is unrelated. Where the curve becomes flat, larger minibatches cost computation without a better direction."]);
}

function autocorrelation({ autocorrelation: values, autocorrelation_ci: ci }) {
  if (!values?.length) return null;
  const chart = lineChart({ label: "Correlation of gradients along time", xLabel: "steps apart", yLabel: "correlation", height: 260 });
  setTimeout(() => chart.update([{ name: "correlation", color: COLORS[0], x: values.map((_, i) => i), y: values, low: ci?.map((pair) => pair?.[0]), high: ci?.map((pair) => pair?.[1]) }]));
  return figure("Correlation along time", chart, "Correlation of the gradients of two steps of one environment, by their distance.", ["If it stays above zero for many steps, these steps carry the same information, and a longer rollout of one environment adds little. The distance at which it reaches zero is about how far correlation lasts."]);
}
