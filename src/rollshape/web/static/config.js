// A config of the user's: recognized, explained, repaired as a difference, rescaled to another N.

import { remember } from "./app.js";
import { call } from "./backend.js";
import { copyButton, diffView, errorBox, h, integer, parseSize, replace, severity } from "./dom.js";

const EXAMPLE = `params:
  config:
    name: ant
    num_actors: 100         # was 2048
    horizon_length: 16
    minibatch_size: 8192    # a quarter of 2048 × 16
    mini_epochs: 4
    learning_rate: 3e-4
    gamma: 0.99
    tau: 0.95
    max_epochs: 500
`;
const LONGEST_IN_ADDRESS = 4000;
let text, name, dialect, facts, root, input, result, rescaled, wanted;
let later = 0;

export function show(main, query) {
  root = main;
  text = query.get("text") ?? text ?? "";
  name = query.get("name") ?? name ?? "stdin";
  dialect = query.get("dialect") ?? undefined;
  wanted = query.get("num_envs") ?? wanted ?? "";
  facts = {};
  input = h("textarea", { id: "config-input", spellcheck: "false", rows: 16, placeholder: "Paste a config (YAML, JSON, TOML, INI, Python) or the command line of a training run, or drop a file here.",
    value: text, oninput: () => { text = input.value; name = "stdin"; dialect = undefined; facts = {}; soon(); } });
  result = h("div", { class: "results", "aria-live": "polite" });
  const box = h("section", { class: "panel drop", "aria-label": "Your config",
    ondragover: (event) => { event.preventDefault(); box.classList.add("over"); },
    ondragleave: () => box.classList.remove("over"),
    ondrop: async (event) => {
      event.preventDefault();
      box.classList.remove("over");
      if (event.dataTransfer.files[0]) read(event.dataTransfer.files[0]);
    } },
  h("h2", {}, h("label", { for: "config-input" }, "Your config")), input,
  h("div", { class: "buttons" },
    h("label", { class: "button small" }, "Open a file", h("input", { type: "file", class: "hidden", onchange: (event) => event.target.files[0] && read(event.target.files[0]) })),
    h("button", { type: "button", class: "small quiet", onclick: () => { text = input.value = EXAMPLE; name = "stdin"; dialect = undefined; explain(); } }, "Try an example")),
  h("p", { class: "muted" }, "Nothing is uploaded: the text is read on this machine. Python is parsed, never executed."));
  replace(main, box, result);
  explain();
  return () => clearTimeout(later);
}

async function read(file) {
  if (file.size > 1e6) {
    replace(result, errorBox({ message: `${file.name} has ${integer(file.size)} bytes; at most 1,000,000 are read.`, fix: "Give the config file of a training." }));
    return;
  }
  text = input.value = await file.text();
  name = file.name;
  dialect = undefined;
  facts = {};
  explain();
}

function soon() {
  clearTimeout(later);
  later = setTimeout(explain, 200);
}

function save() {
  const query = new URLSearchParams();
  if (text && text.length <= LONGEST_IN_ADDRESS) {
    query.set("text", text);
    if (name !== "stdin") query.set("name", name);
    if (dialect) query.set("dialect", dialect);
    if (wanted) query.set("num_envs", wanted);
  }
  remember("config", query);
}

async function explain() {
  save();
  if (!text.trim()) {
    replace(result, h("section", { class: "panel" }, h("h2", {}, "What happens here"),
      h("p", {}, "Rollshape recognizes which library the config is for, says what that library will run with it, repairs sizes that lose samples or crash, and rescales it to another number of environments."),
      h("p", { class: "muted" }, "33 formats: Stable-Baselines3, CleanRL, rl_games, RSL-RL, skrl, Isaac Lab, RLlib, Brax, PureJaxRL, TorchRL, PufferLib and others.")));
    return;
  }
  const asked = text;
  const answer = await call("config", { text, name, dialect, ...facts });
  if (asked !== text || !result.isConnected) return;
  if (answer.error && !answer.candidates) { replace(result, h("section", { class: "panel" }, errorBox(answer.error))); return; }
  rescaled = h("div", { class: "stack" });
  replace(result, recognized(answer), answer.error && problem(answer), answer.runs?.plan && runs(answer), answer.runs?.error && h("section", { class: "panel" }, h("h2", {}, "What it runs"), errorBox(answer.runs.error)),
    answer.patch && repair(answer), answer.patch && rescale(answer));
}

function recognized({ kind, candidates, dialect: chosen }) {
  const names = [...new Set([chosen, ...candidates.map((entry) => entry.dialect)])];
  const entry = candidates.find((candidate) => candidate.dialect === chosen);
  const equal = candidates.filter((candidate) => candidate.keys === entry?.keys && candidate.dialect !== chosen).map((candidate) => candidate.dialect);
  return h("section", { class: "panel" }, h("h2", {}, `Recognized as ${entry?.library ?? chosen}`),
    h("p", {}, entry ? `${kind}, ${entry.keys} keys of this library.` : kind, equal.length > 0 && ` The same keys also fit ${equal.join(", ")}: choose the library if this is not the right one.`),
    h("div", { class: "field inline" }, h("label", { for: "dialect" }, "Read it as"),
      h("select", { id: "dialect", onchange: (event) => { dialect = event.target.value; explain(); } },
        names.map((item) => h("option", { value: item, selected: item === chosen }, item)))));
}

function problem({ error }) {
  const levels = error.alternatives.filter((entry) => entry.key);
  const needsEnvs = /num[_-]envs|number of environments/i.test(error.fix + error.message);
  return h("section", { class: "panel" }, errorBox(error),
    levels.length > 0 && h("div", { class: "buttons" }, levels.map(({ key }) => h("button", { type: "button", class: "small", onclick: () => { facts.key = key; explain(); } }, key))),
    levels.length === 0 && needsEnvs && h("div", { class: "field inline" }, h("label", { for: "facts-envs" }, "Environments"), h("input", { id: "facts-envs", class: "size", inputmode: "numeric", onchange: (event) => {
      const value = parseSize(event.target.value);
      if (value >= 1) { facts.num_envs = value; explain(); }
    } })));
}

function runs({ runs: { plan, defaults } }) {
  const rows = [["Environments N", plan.num_envs], ["Steps T", plan.num_steps], ["Rollout", plan.rollout_size], ["Minibatch", plan.minibatch_size],
    ["Minibatches per epoch", plan.num_minibatches], ["Epochs", plan.num_epochs], ["Gradient steps per update", plan.gradient_steps_per_update],
    ["Updates", plan.num_updates], ["Gradient steps", plan.gradient_steps], ["Processes", plan.world_size > 1 ? plan.world_size : null], ["Agents", plan.num_agents > 1 ? plan.num_agents : null]];
  const findings = plan.findings.filter((finding) => finding.severity !== "info");
  const query = new URLSearchParams(Object.entries({ algo: plan.algo, num_envs: plan.num_envs, num_steps: plan.num_steps, num_epochs: plan.num_epochs,
    num_minibatches: plan.dropped || plan.last_minibatch_size !== plan.minibatch_size ? null : plan.num_minibatches, total_timesteps: plan.total_timesteps }).filter(([, value]) => value !== null && value !== undefined));
  return h("section", { class: "panel" }, h("h2", {}, "What it runs"),
    h("dl", { class: "facts" }, rows.filter(([, value]) => value !== null && value !== undefined).map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, integer(value))))),
    defaults?.length > 0 && h("p", { class: "muted" }, `Not in the config, the library's defaults apply: ${defaults.join(", ")}.`),
    plan.dropped > 0 && h("p", { class: "bad" }, `${integer(plan.dropped)} samples of each epoch are not used.`),
    findings.map((finding) => h("div", { class: `finding ${finding.severity}` }, severity(finding.severity), h("div", {}, h("p", {}, finding.message), h("p", { class: "muted" }, finding.fix)))),
    ["ppo", "a2c", "reinforce", "ppo-ewma"].includes(plan.algo) && h("p", {}, h("a", { href: `#plan?${query}` }, "Open these sizes in the planner")));
}

function repair({ patch, text: fixed, runs: before }) {
  const changes = Object.keys(patch.changes).length;
  const isShort = before?.plan && (before.plan.dropped > 0 || before.plan.last_minibatch_size !== before.plan.minibatch_size);
  return h("section", { class: "panel" }, h("h2", {}, changes ? "Repaired" : "Sizes are valid"),
    changes ? [h("p", {}, `${changes === 1 ? "One value changes" : `${changes} values change`}${patch.reason ? `: ${patch.reason}` : ""}. Comments and layout are kept.`), diffView(patch.diff),
      h("div", { class: "buttons" }, copyButton(fixed, "Copy the repaired config"))] : h("p", { class: "good" }, isShort ? "✓ The library accepts these sizes; no value has to change." : "✓ The library accepts these sizes and trains on every sample, in minibatches of equal size."),
    patch.learning_rate && h("p", {}, patch.learning_rate),
    [...patch.comments, ...patch.notes].length > 0 && h("ul", { class: "muted" }, [...patch.comments, ...patch.notes].map((line) => h("li", {}, line))));
}

function rescale(answer) {
  const field = h("input", { id: "rescale-envs", class: "size", inputmode: "numeric", autocomplete: "off", value: wanted, onchange: () => { wanted = field.value; save(); run(answer); },
    onkeydown: (event) => { if (event.key === "Enter") { wanted = field.value; save(); run(answer); } } });
  if (wanted) run(answer);
  return h("section", { class: "panel" }, h("h2", {}, Object.keys(answer.patch.changes).length ? "Rescale the repaired config" : "Rescale"),
    h("div", { class: "field inline" }, h("label", { for: "rescale-envs" }, "New number of environments"), field, h("button", { type: "button", class: "small", onclick: () => { wanted = field.value; save(); run(answer); } }, "Rescale")), rescaled);
}

async function run({ dialect: chosen, text: repaired }) {
  const count = parseSize(wanted);
  if (!(count >= 1)) { replace(rescaled, h("p", { class: "bad" }, "Write a whole number of at least 1.")); return; }
  const { num_envs: known, ...others } = facts;
  const answer = await call("rescaled", { text: repaired, name, dialect: chosen, ...others, num_envs: count, ...(known && { from_num_envs: known }) });
  if (answer.error) { replace(rescaled, errorBox(answer.error)); return; }
  const { rescale: document_, diff, text: fixed } = answer;
  const table = h("table", {}, h("thead", {}, h("tr", {}, ["Key", "Before", "After", "Why"].map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, document_.changes.map((change) => h("tr", {}, h("td", {}, h("code", {}, change.key)), h("td", {}, String(change.before ?? "not set")), h("td", {}, String(change.after)), h("td", {}, change.reason)))));
  replace(rescaled, document_.changes.length ? h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Changes" }, table) : h("p", {}, "Nothing changes."),
    diff ? diffView(diff) : !answer.is_layout_kept && [h("p", {}, "The text cannot be edited in place; this is the new config, without its comments."), h("pre", { class: "code", tabindex: "0" }, fixed)],
    document_.changes.length > 0 && h("div", { class: "buttons" }, copyButton(fixed, "Copy the rescaled config")),
    h("ul", { class: "muted" }, [`Policy: ${document_.policy}.`, ...document_.notes, ...document_.comments].map((line) => h("li", {}, line))));
}
